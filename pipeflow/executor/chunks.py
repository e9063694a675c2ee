"""The number of samples of a batch that a thread takes at once: a chunk."""

# Seconds of work in a chunk, at least and at most.
SAMPLES = 2e-4, 2e-3  # claiming a chunk costs about 10 us
CHAIN = 2e-3, 16e-3  # a chain begins with 100 us of Python, during which other threads wait for the interpreter

ALONE = 4  # the only thread takes so much more of a chain: others have nothing to wait for


def chunk_size(left: int, threads: int, seconds: float, limits: tuple[float, float]) -> int:
    """A share of the samples that are left, so that no thread waits long for the last chunk, but enough work for a claim.

    ``seconds`` is the time of a sample. Threads that find no samples of this batch go on with the next one.
    """
    least, most = limits
    chain = most > SAMPLES[1]
    if threads == 1:
        return min(left, int((ALONE * most if chain else most) / seconds) + 1)
    share = -(-left // (threads if chain else 2 * threads))  # of a chain few chunks, because each begins with Python
    return min(max(share, int(least / seconds) + 1), int(most / seconds) + 1, left)
