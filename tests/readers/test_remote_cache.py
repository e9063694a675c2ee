"""`cache=` of readers: what was read from URLs is read from a folder afterwards, and a file that changed is read again."""

import io
import json
import re
import tarfile
import threading

import numpy as np
import pytest
from readers.file_server import FAULTS

from pipeflow import fn, pipeline_def
from pipeflow.operators.readers.reader import Reader
from pipeflow.operators.readers.view import RemoteView, latest, opened
from pipeflow.operators.readers.webdataset import write_index
from pipeflow.watching.metrics import exposition

COUNT = 12


def tar_of(seed, count=COUNT):
    """A tar file whose members are different with every seed, and have the same sizes."""
    target, rng = io.BytesIO(), np.random.default_rng(seed)
    with tarfile.open(fileobj=target, mode="w") as tar:
        for number in range(count):
            member = tarfile.TarInfo(f"{number:03}.bin")
            member.size = 3000 + 700 * number
            tar.addfile(member, io.BytesIO(rng.bytes(member.size)))
    return target.getvalue()


@pytest.fixture
def store(server):
    """A server with a tar file and single files."""
    server.files["/a.tar"] = tar_of(0)
    for number in range(COUNT):
        server.files[f"/{number}"] = np.random.default_rng(number).bytes(900 * number)
    return server


def pipeline(store, kind, checkpoint=None, on_error="raise", **arguments):
    @pipeline_def(
        batch_size=5, num_threads=2, seed=2, on_error=on_error, enable_checkpointing=True, checkpoint=checkpoint
    )
    def define():
        if kind == "files":
            return fn.readers.file(files=f"{store.url}/{{0..{COUNT - 1}}}", name="reader", **arguments)[0]
        return fn.readers.webdataset(paths=f"{store.url}/a.tar", ext="bin", name="reader", **arguments)

    return define()


def epoch(pipe):
    return [bytes(np.asarray(sample)) for (batch,) in pipe.epoch() for sample in batch.samples()]


def figures(pipe):
    [found] = pipe.statistics().caches
    return found


every_kind = pytest.mark.parametrize("kind", ["files", "tar"])


def bytes_in(folder):
    """The bytes of the files of a cache, once requests that were on their way neither add nor remove files."""
    before = None
    for _ in range(10_000):
        try:
            found = {path: path.stat().st_size for path in folder.rglob("*-*")}
        except FileNotFoundError:
            continue
        if found == before:
            break
        before = found
    return sum(found.values())


@every_kind
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("limit", [None, "30kB", 100_000, "1GiB"])
def test_epochs_are_the_same_with_any_limit(store, tmp_path, kind, shuffle, limit):
    """In two epochs and in a second pipeline, with faults; the folder is not larger than the limit."""
    expected = pipeline(store, kind, random_shuffle=shuffle)
    expected = [epoch(expected) for _ in range(2)]
    arguments = {"random_shuffle": shuffle, "cache": str(tmp_path)}
    if limit is not None:
        arguments["cache_bytes"] = limit
    for _ in range(2):
        store.faults = [None, *FAULTS[:3], None, *FAULTS[3:5]]
        pipe = pipeline(store, kind, **arguments)
        assert [epoch(pipe) for _ in range(2)] == expected
        pipe._executor.close()
        assert bytes_in(tmp_path) <= {"30kB": 30_000, 100_000: 100_000}.get(limit, 10**9)
    if limit not in ("30kB", 100_000):
        assert (figures(pipe).misses, figures(pipe).bytes_read) == (0, 0)


@every_kind
def test_a_file_that_changed_is_read_again(store, tmp_path, kind):
    """The next pipeline compares each file with its server: bytes of the same size that changed are seen."""
    cache = {"cache": str(tmp_path)}
    before = epoch(pipeline(store, kind, **cache))
    store.files["/a.tar"] = tar_of(1)
    for number in range(0, COUNT, 2):
        store.files[f"/{number}"] = bytes(len(store.files[f"/{number}"]))
    plain = epoch(pipeline(store, kind))
    assert plain != before
    for _ in range(2):
        assert epoch(pipeline(store, kind, **cache)) == plain


def test_a_pipeline_that_runs_keeps_its_version(store, tmp_path):
    """It asks for the version of a file once; the next pipeline sees the change. Without a cache a change is an error."""
    cached = pipeline(store, "tar", cache=str(tmp_path))
    before = epoch(cached)
    plain = pipeline(store, "tar")
    plain.build()
    store.files["/a.tar"] = tar_of(1) + bytes(512)
    assert epoch(cached) == before
    with pytest.raises(Exception, match="has changed while it was read"):
        [epoch(plain) for _ in range(3)]
    assert epoch(pipeline(store, "tar", cache=str(tmp_path))) == epoch(pipeline(store, "tar")) != before


@pytest.mark.parametrize("parts", [True, False])
@pytest.mark.parametrize("heads", [True, False])
def test_servers_that_answer_only_some_requests(store, tmp_path, heads, parts):
    """Without HEAD the version comes with one byte; a server without parts sends whole files again."""
    expected = epoch(pipeline(store, "files"))
    store.heads, store.gives_parts = heads, parts
    for _ in range(2):
        pipe = pipeline(store, "files", cache=str(tmp_path))
        assert [epoch(pipe) for _ in range(2)] == [expected] * 2
    assert figures(pipe).misses == 0


@every_kind
def test_a_server_without_versions_is_not_cached(store, tmp_path, kind):
    """A warning says so once, and every byte is read from the server."""
    store.versions = False
    pipe = pipeline(store, kind, cache=str(tmp_path))
    with pytest.warns(UserWarning, match="is not kept in the cache: its server states no version of it") as seen:
        found = [epoch(pipe) for _ in range(2)]
    assert len(seen) == 1
    assert found[0] == found[1]
    assert found[0] == epoch(pipeline(store, kind))
    assert not list(tmp_path.rglob("*-*"))


def test_a_missing_file_is_the_error_of_its_sample(store, tmp_path):
    """As without a cache, also when the other files are kept."""
    del store.files["/7"]
    for _ in range(2):
        pipe = pipeline(store, "files", on_error="skip", cache=str(tmp_path))
        assert epoch(pipe) == [store.files[f"/{n}"] for n in range(COUNT) if n != 7]
        assert [type(failure.exception).__mro__[1] for failure in pipe.failures()] == [FileNotFoundError]
        del pipe
    with pytest.raises(FileNotFoundError, match="/7"):
        epoch(pipeline(store, "files", cache=str(tmp_path)))


@every_kind
def test_a_checkpoint_may_continue_with_another_folder(store, tmp_path, kind):
    """Neither the folder nor its limit belong to the state."""
    pipe = pipeline(store, kind, random_shuffle=True, cache=str(tmp_path / "a"))
    whole = [epoch(pipe) for _ in range(2)]
    for arguments in ({}, {"cache": str(tmp_path / "a")}, {"cache": str(tmp_path / "b"), "cache_bytes": "20kB"}):
        first = pipeline(store, kind, random_shuffle=True, cache=str(tmp_path / "a"))
        batches = iter(first.epoch())
        next(batches)
        state = first.checkpoint()
        second = pipeline(store, kind, state, random_shuffle=True, **arguments)
        assert epoch(second) + epoch(second) == whole[0][5:] + whole[1]


def test_several_pipelines_at_the_same_time(store, tmp_path):
    """Four threads, each with a pipeline of its own over one small folder."""
    expected = {kind: [epoch(pipe) for _ in range(3)] for kind in ("files", "tar") for pipe in [pipeline(store, kind)]}
    found = []

    def run(kind, limit):
        pipe = pipeline(store, kind, cache=str(tmp_path), cache_bytes=limit)
        found.append([epoch(pipe) for _ in range(3)] == expected[kind])

    places = [("files", "40kB"), ("tar", "90kB"), ("files", "1MB"), ("tar", "30kB")]
    threads = [threading.Thread(target=run, args=place) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_a_mixture_of_readers_with_caches(store, tmp_path):
    """Each reader has its own folder, and the figures are sums."""

    @pipeline_def(batch_size=6, num_threads=2, seed=1)
    def define(**arguments):
        folders = [{"cache": str(tmp_path / name), **arguments} if arguments else {} for name in "ab"]
        files, _ = fn.readers.file(files=f"{store.url}/{{0..{COUNT - 1}}}", **folders[0])
        members = fn.readers.webdataset(paths=f"{store.url}/a.tar", ext="bin", **folders[1])
        return fn.mix([files, members], name="mixture")

    expected = epoch(define())
    for _ in range(2):
        pipe = define(cache_bytes="1MB")
        assert epoch(pipe) == expected
    assert (figures(pipe).name, figures(pipe).bytes_read) == ("mixture", 0)
    assert figures(pipe).bytes_found >= sum(map(len, expected))
    assert list((tmp_path / "a").rglob("*-*"))
    assert len(list((tmp_path / "b").rglob("*-*"))) == 1


def test_regions_that_differ_are_read_through_the_cache(store, tmp_path):
    """The operator that reads the regions uses the folder of the reader."""
    for number in range(4):
        target = io.BytesIO()
        np.save(target, np.arange(30).reshape(5, 6) + number)
        store.files[f"/{number}.npy"] = target.getvalue()

    @pipeline_def(batch_size=4, num_threads=2)
    def define():
        files = f"{store.url}/{{0..3}}.npy"
        return fn.readers.numpy(
            files=files, roi_start=fn.constant(idata=[1, 2]) + 0, roi_end=[3, 4], cache=str(tmp_path)
        )

    expected = [(np.arange(30).reshape(5, 6) + n)[1:3, 2:4].tolist() for n in range(4)]
    for _ in range(2):
        [values] = define().run()
        assert [np.asarray(x).tolist() for x in values.samples()] == expected
    found = latest(str(tmp_path), None).parts.counts.sums()
    assert found["misses"] == found["bytes_read"] == 0
    assert found["hits"] > 0


def test_an_index_on_the_server_is_kept_too(store, tmp_path):
    """Lists and indexes are files like others."""
    (tmp_path / "a.tar").write_bytes(store.files["/a.tar"])
    write_index(str(tmp_path / "a.tar"), str(tmp_path / "a.idx"))
    store.files["/a.idx"] = (tmp_path / "a.idx").read_bytes()
    expected = epoch(pipeline(store, "tar"))
    for _ in range(2):
        pipe = pipeline(store, "tar", index_paths=f"{store.url}/a.idx", cache=str(tmp_path / "kept"))
        assert epoch(pipe) == expected
    assert figures(pipe).bytes_read == 0


def test_the_figures_are_with_those_of_the_pipeline(store, tmp_path):
    """In the table, in the dictionary of the executor and among the metrics."""
    pipe = pipeline(store, "files", cache=str(tmp_path))
    epoch(pipe)
    found = figures(pipe)
    assert found.misses >= COUNT
    assert found.bytes_read >= sum(len(store.files[f"/{n}"]) for n in range(COUNT))
    line = str(pipe.statistics()).splitlines()[-1]
    assert re.fullmatch(r"cache of reader: \d+ hits?, \d+ misses; [\d.]+ MB found, [\d.]+ MB read from servers", line)
    assert pipe.executor_statistics()["reader"]["remote_cache"].keys() == {
        "hits",
        "misses",
        "bytes_found",
        "bytes_read",
        "bytes_kept",
        "bytes_not_kept",
    }
    text = exposition([("0", pipe._built())])
    assert re.search(r'pipeflow_cache_reads_total{pipeline="0",step="reader",result="miss"} \d+', text)
    assert re.search(r'pipeflow_cache_bytes_total{pipeline="0",step="reader",result="hit"} \d+', text)
    json.dumps(pipe.executor_statistics())
    assert pipeline(store, "files").statistics().caches == ()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"cache_bytes": "1GB"}, ValueError, "cache_bytes is the limit of a folder: give the folder with cache="),
        (
            {"cache": "x", "cache_bytes": "much"},
            ValueError,
            "cache_bytes must be a number of bytes or a text such as '2GB'",
        ),
        ({"cache": "x", "cache_bytes": 0}, ValueError, "cache_bytes must be at least 1, got 0"),
        ({"cache": "x", "cache_bytes": 1.5}, TypeError, "cache_bytes must be an integer"),
        ({"cache": 3}, TypeError, "cache"),
        ({"cache": ""}, ValueError, "cache is the path of a folder, got an empty text"),
    ],
)
def test_wrong_arguments(store, elsewhere, arguments, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        pipeline(store, "files", **arguments).build()


def test_a_folder_that_cannot_be_made_is_an_error_of_build(store, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        pipeline(store, "files", cache=str(tmp_path / "file")).build()


def test_the_default_limit_and_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert opened("~/a", "1MB").parts.folder == tmp_path / "a" / "remote"
    assert latest("~/a", "1MB").parts.most == 10**6
    assert opened(str(tmp_path), None).parts.most == 10**10
    assert opened(None, None).parts is None


def test_a_reader_has_a_view_of_its_own():
    """Two readers over one URL may see two versions of it."""
    first, second = (Reader(lambda: range(3), {}) for _ in range(2))
    assert isinstance(first.view, RemoteView)
    assert first.view is not second.view
