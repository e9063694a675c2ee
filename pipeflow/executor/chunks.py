"""The number of samples of a batch that a thread takes at once: a chunk."""

# Seconds of work in a chunk, at least and at most.
SAMPLES = 2e-4, 2e-3  # claiming a chunk costs about 10 us
# A chain begins with 300 us of Python, out of the caches: so long other threads wait for the interpreter.
CHAIN = 2e-3, 32e-3
ALONE = 8  # the only thread takes so much more of a chain: others have nothing to wait for


def chunk_size(left: int, threads: int, seconds: float, limits: tuple[float, float], batches: int) -> int:
    """A share of the samples that are left, so that no thread waits long for the last chunk, but enough work for a claim.

    ``seconds`` is the time of a sample, and ``batches`` the number of batches that are in work. Threads that find no samples of
    this batch go on with the next one, if there is one for each. Then few threads take long chunks of a chain: two halves of a
    batch, and not also a quarter, an eighth and so on.
    """
    least, most = limits
    chain = most > SAMPLES[1]
    if threads == 1:
        return min(left, int((ALONE * most if chain else most) / seconds) + 1)
    long = chain and batches >= threads
    share = -(-left // (threads if chain else 2 * threads))
    fewest = int((max(least, most / (2 * threads)) if long else least) / seconds) + 1
    chunk = min(max(share, fewest), int(most / seconds) + 1, left)
    return left if long and left - chunk < fewest // 2 else chunk
