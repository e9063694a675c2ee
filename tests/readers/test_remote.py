"""Patterns, braces and URLs in the paths of readers: a server on this machine that fails in every way, and no byte is wrong."""

import io
import json
import tarfile
import threading
from concurrent.futures import Future

import numpy as np
import pyarrow
import pytest
import soundfile
from helpers import LONG
from PIL import Image
from pyarrow import parquet
from readers import records
from readers.file_server import FAULTS
from readers.test_fits import image, unit, write

from pipeflow import fn, pipeline_def, tfrecord
from pipeflow.declare import Request
from pipeflow.errors import BadData
from pipeflow.operators.readers import ahead, groups_ahead, pieces, remote
from pipeflow.operators.readers.caffe import CaffeReader
from pipeflow.operators.readers.files import stated
from pipeflow.operators.readers.fits import FitsReader
from pipeflow.operators.readers.hedges import SEEN, Budget, Hedges, Latencies, Race, _Resender
from pipeflow.operators.readers.order import Order
from pipeflow.operators.readers.parquet import ParquetReader
from pipeflow.operators.readers.places import expanded
from pipeflow.operators.readers.reader import Reader
from pipeflow.operators.readers.sequence import SequenceReader
from pipeflow.operators.readers.tfrecord import write_index
from pipeflow.operators.readers.webdataset import write_index as write_tar_index


@pytest.mark.parametrize("fault", FAULTS)
def test_what_passes_is_tried_again(server, fault):
    """Whole files, parts and sizes come right after one and after five faults; six are an error that names the URL."""
    server.files["/a"] = bytes(range(200))
    url = server.url + "/a"
    for count in (1, remote.TRIES - 1):
        server.faults = [fault] * count
        assert bytes(remote.read_whole(url)) == server.files["/a"]
        server.faults = [fault] * count
        assert bytes(remote.read_part(url, 7, 50)) == server.files["/a"][7:57]
    server.faults = [fault] * remote.TRIES
    with pytest.raises(OSError, match=rf"{url}: .* \({remote.TRIES} tries\)"):
        remote.read_whole(url)
    assert server.faults == []


def test_a_wrong_byte_is_found_by_the_checksum(server):
    """Where the server states one."""
    server.files["/a"], server.sums = b"picture" * 100, True
    server.faults = ["wrong", "wrong"]
    assert bytes(remote.read_whole(server.url + "/a")) == server.files["/a"]
    server.faults = ["wrong"] * remote.TRIES
    with pytest.raises(OSError, match="the checksum of the received data differs from the one that the server sent"):
        remote.read_whole(server.url + "/a")


def test_a_slow_answer_is_overtaken_by_a_second_request(server):
    """After fifty answers, a body that stops in its middle costs one more request; its connection is closed."""
    server.files["/a"] = bytes(range(200))
    url = server.url + "/a"
    for _ in range(SEEN):
        assert bytes(remote.read_part(url, 7, 50)) == server.files["/a"][7:57]
    before = len(server.requests)
    server.faults = ["slow"]
    assert bytes(remote.read_part(url, 9, 60)) == server.files["/a"][9:69]
    assert server.requests[before:] == [("/a", "bytes=9-68")] * 2
    assert server.closed.get(timeout=LONG) == b""
    assert bytes(remote.read_part(url, 1, 50)) == server.files["/a"][1:51]


def test_a_second_request_that_fails_leaves_the_first(server):
    """Of two requests that fail the first error counts, and both are tried again as before."""
    hedges, faults = Hedges(), iter([OSError("first"), OSError("second")])
    for _ in range(SEEN):
        hedges.fastest("kind", lambda attempt: None)
    second, first = threading.Event(), threading.Event()

    def send(attempt):
        if threading.current_thread() is threading.main_thread():
            assert second.wait(LONG)
            first.set()
            return "good"
        second.set()
        raise next(faults)

    assert hedges.fastest("kind", send) == "good"
    assert first.is_set()


def test_a_quick_request_does_not_wait_for_a_slow_one(monkeypatch):
    """The thread that waits for the limit of a slow kind of request is woken for one that is due earlier."""
    resender, waiting, sent = _Resender(), threading.Event(), threading.Event()
    wait = resender._changed.wait

    def noted(seconds):
        if seconds is not None and seconds > 100:
            waiting.set()
        return wait(seconds)

    monkeypatch.setattr(resender._changed, "wait", noted)
    slow, quick = (Race(send, Budget()) for send in (lambda attempt: None, lambda attempt: sent.set()))
    resender.add(1000.0, slow)
    assert waiting.wait(LONG)
    resender.add(0.0, quick)
    assert sent.wait(LONG)


def test_few_requests_are_sent_twice():
    """One in twenty, and at most five at once."""
    budget = Budget()
    assert [budget.spend() for _ in range(3)] == [True, False, False]
    for _ in range(1000):
        budget.earn()
    assert sum(budget.spend() for _ in range(100)) == 5
    for _ in range(40):
        budget.earn()
    assert 1 <= sum(budget.spend() for _ in range(100)) <= 2


def test_the_limit_is_the_99th_percentile():
    """Of 1 to 100 the limit is 100; before fifty answers there is none."""
    known = Latencies()
    for number in range(SEEN - 1):
        known.add(float(number))
        assert known.limit is None
    known.add(5.0)
    assert known.limit == SEEN - 2
    for _ in range(2000):
        known.add(3.0)
    assert known.limit == 3.0


def test_answers_that_no_second_try_changes(server):
    """Each is asked for once and has the type of error that a file of this machine has."""
    server.files["/a"] = b"12345"
    for status, kind in ((404, FileNotFoundError), (403, PermissionError), (400, OSError)):
        server.faults = [status]
        with pytest.raises(kind, match=f"/a: the server answers {status}"):
            remote.read_whole(server.url + "/a")
    with pytest.raises(BadData, match="bytes 3 to 9 are needed, but the file has 5"):
        remote.read_part(server.url + "/a", 3, 6)
    server.files["/a"] = b"123456789"
    with pytest.raises(BadData, match="has changed while it was read: it had 5 bytes, and has 9"):
        remote.read_part(server.url + "/a", 0, 5)


def test_redirections_empty_files_and_servers_without_parts(server):
    """A file may move; an empty one has size 0; a server that gives only whole files is enough for files in a piece."""
    server.files.update({"/a": b"12345", "/empty": b""})
    assert bytes(remote.read_whole(server.url + "/moved/a")) == b"12345"
    assert bytes(remote.read_part(server.url + "/moved/a", 1, 3)) == b"234"
    assert remote.size_of_url(server.url + "/empty") == 0
    server.gives_parts = False
    assert bytes(remote.read_part(server.url + "/a", 0, 5)) == b"12345"
    with pytest.raises(BadData, match="does not send parts of files"):
        remote.read_part(server.url + "/a", 2, 2)


def test_a_url_is_stated_with_what_is_known_of_its_file(server):
    """A cache compares the size and the version; nothing is requested for this."""
    server.files["/a"] = b"12345"
    url = server.url + "/a"
    assert stated([url, "here"]) == [url, "here"]
    assert not server.requests
    remote.size_of_url(url)
    [found] = stated([url])
    assert found.startswith(f"{url} 5 ")


def test_a_file_is_read_ahead(server):
    """Few requests for many small reads, larger ones the longer it goes on; every byte where it belongs."""
    data = np.random.default_rng(0).bytes(1_000_000)
    server.files["/a"] = data
    file = remote.RemoteFile(server.url + "/a")
    assert b"".join(iter(lambda: file.read(777), b"")) == data
    assert len(server.requests) <= 6
    file.seek(-10, 2)
    assert (file.read(), file.read(5)) == (data[-10:], b"")
    file.seek(500_000)
    assert file.read(10) == data[500_000:500_010]


def test_a_file_of_requested_pieces(server):
    """Every byte is there, in pieces or between them; a piece that is too short is an error and not an endless wait."""
    data = np.random.default_rng(0).bytes(3000)
    server.files["/a"] = data
    url, requests = server.url + "/a", pieces.Requests()
    file = pieces.FileOfPieces(url, requests.begin([(url, 100, 500), (url, 2000, 1000)]))
    assert file.read(50) + file.read() == data
    file.seek(590)
    assert file.read(20) == data[590:610]
    short = Future()
    short.set_result(np.frombuffer(data[:7], np.uint8))
    file = pieces.FileOfPieces(url, [pieces.Piece(0, 10, short)])
    with pytest.raises(EOFError, match="/a gave nothing from byte 7 on, and has 3000"):
        file.read(10)


def samples(output):
    return [np.asarray(x).tolist() for x in output.samples()]


@pytest.fixture
def patient(monkeypatch):
    """More tries than faults: requests run side by side, so one of them may get all faults."""
    monkeypatch.setattr(remote, "TRIES", len(FAULTS) + 1)


def local_and_remote(server, folder, names, reader, batch_size):
    """The batches of a reader over files of a folder, and over the same files at URLs with faults."""
    for name in names:
        server.files[f"/{name}"] = (folder / name).read_bytes()

    def batches(base, **cache):
        @pipeline_def(batch_size=batch_size, num_threads=2, seed=1)
        def define():
            found = reader([f"{base}/{name}" for name in names], **cache)
            return tuple(found.values()) if isinstance(found, dict) else found

        pipe = define()
        found = [[samples(output) for output in batch] for batch in pipe.epoch()]
        return found, [figures.bytes_read for figures in pipe.statistics().caches]

    expected, _ = batches(str(folder))
    cache = {"cache": str(folder / "kept")}
    for arguments in ({}, cache):
        server.faults = [fault for one in FAULTS for fault in (one, None)]
        assert batches(server.url, **arguments)[0] == expected
    server.faults = []
    assert batches(server.url, **cache) == (expected, [0])
    return expected


def test_every_kind_of_reader_reads_urls(server, tmp_path, patient):
    """The same samples as from the folder, whatever fails on the way."""
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.arange(number + 2))
    names = [f"{number}.npy" for number in range(3)]
    local_and_remote(server, tmp_path, names, lambda files, **cache: fn.readers.numpy(files=files, **cache), 3)
    local_and_remote(server, tmp_path, names, lambda files, **cache: fn.readers.file(files=files, **cache), 3)

    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number in range(4):
            member = tarfile.TarInfo(f"{number}.bin")
            member.size = 100 * number
            tar.addfile(member, io.BytesIO(bytes([number]) * member.size))
    local_and_remote(
        server, tmp_path, ["a.tar"], lambda paths, **cache: fn.readers.webdataset(paths=paths, ext="bin", **cache), 4
    )
    index = str(tmp_path / "a.idx")
    write_tar_index(str(tmp_path / "a.tar"), index)
    local_and_remote(
        server,
        tmp_path,
        ["a.tar"],
        lambda paths, **cache: fn.readers.webdataset(paths=paths, index_paths=index, ext="bin", **cache),
        4,
    )

    data = b"".join(records.record(records.example({"i": [n]})) for n in range(4))
    (tmp_path / "a.tfrecord").write_bytes(data)
    features = {"i": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)}
    local_and_remote(
        server,
        tmp_path,
        ["a.tfrecord"],
        lambda path, **cache: fn.readers.tfrecord(path=path, features=features, **cache),
        4,
    )
    write_index(str(tmp_path / "a.tfrecord"), index)
    local_and_remote(
        server,
        tmp_path,
        ["a.tfrecord"],
        lambda path, **cache: fn.readers.tfrecord(path=path, index_path=index, features=features, **cache),
        4,
    )

    magic = b"\x0a\x23\xd7\xce"
    found = [b"\0\0\0\0" + np.float32(n).tobytes() + bytes(16) + bytes([n]) * 4 for n in range(4)]
    (tmp_path / "a.rec").write_bytes(b"".join(magic + len(x).to_bytes(4, "little") + x for x in found))
    (tmp_path / "a.rec.idx").write_text("".join(f"{n}\t{36 * n}\n" for n in range(4)))
    local_and_remote(
        server,
        tmp_path,
        ["a.rec", "a.rec.idx"],
        lambda paths, **cache: tuple(fn.readers.mxnet(path=paths[0], index_path=paths[1], **cache)),
        4,
    )

    parquet.write_table(pyarrow.table({"x": list(range(7))}), tmp_path / "a.parquet", row_group_size=3)
    local_and_remote(
        server,
        tmp_path,
        ["a.parquet"],
        lambda paths, **cache: fn.readers.parquet(paths=paths, columns=["x"], **cache),
        7,
    )


def test_images_of_astronomy_at_urls(server, tmp_path, patient):
    """They are read ahead like other files."""
    for place in range(3):
        write(tmp_path, unit(None, first=True), unit(image("i2", place)), name=f"{place}.fits")
    names = [f"{place}.fits" for place in range(3)]
    local_and_remote(server, tmp_path, names, lambda files, **cache: fn.readers.fits(files=files, **cache), 3)
    assert FitsReader(files=[f"{server.url}/0.fits"]).far


def test_readers_of_lists_and_databases_read_urls(server, tmp_path, patient):
    """Annotations, manifests and databases, and the files that they name."""
    for number in range(3):
        (tmp_path / f"{number}.bin").write_bytes(bytes([number]) * 9)
    coco = {
        "images": [{"id": n + 1, "width": 9, "height": 5, "file_name": f"{n}.bin"} for n in range(3)],
        "annotations": [{"id": n, "image_id": n + 1, "category_id": 7, "bbox": [n, 1, 2, 3]} for n in range(3)],
        "categories": [{"id": 7}],
    }
    (tmp_path / "coco.json").write_text(json.dumps(coco))

    def annotated(paths, **cache):
        return tuple(fn.readers.coco(annotations_file=paths[0], file_root=paths[0].rpartition("/")[0], **cache))

    found = local_and_remote(server, tmp_path, ["coco.json", "0.bin", "1.bin", "2.bin"], annotated, 3)
    assert found[0][0] == [[n] * 9 for n in range(3)]

    soundfile.write(tmp_path / "a.wav", np.linspace(-0.5, 0.5, 800), 8000)
    lines = [{"audio_filepath": "a.wav", "text": "yes"}, {"audio_filepath": "a.wav", "offset": 0.05, "duration": 0.02}]
    (tmp_path / "all.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    local_and_remote(
        server,
        tmp_path,
        ["all.json", "a.wav"],
        lambda paths, **cache: tuple(fn.readers.nemo_asr(manifest_filepaths=paths[:1], **cache)),
        2,
    )

    values = [records.message(f4=bytes([n]) * 90 * n, f5=n, f7=1) for n in range(4)]
    (tmp_path / "data.mdb").write_bytes(records.lmdb(values))
    local_and_remote(
        server, tmp_path, ["data.mdb"], lambda paths, **cache: tuple(fn.readers.caffe(path=paths, **cache)), 4
    )
    assert [place for place, _ in server.requests].count("/data.mdb") > 4
    assert CaffeReader(path=server.url).fetch(1)[1] == [1]


def test_frames_of_a_url_of_this_machine(tmp_path):
    """A file:// URL is a folder; a server of http cannot list its folders."""
    (tmp_path / "a b").mkdir()
    for number in range(2):
        Image.fromarray(np.full((3, 4, 3), number, np.uint8)).save(tmp_path / "a b" / f"{number}.png")
    url = f"file://{tmp_path}"
    assert SequenceReader(file_root=url, sequence_length=2).fetch(0)[0][:, 0, 0, 0].tolist() == [0, 1]
    with pytest.raises(ValueError, match="a server of http cannot say which files it has"):
        SequenceReader(file_root="http://127.0.0.1/videos", sequence_length=2)


def test_samples_are_requested_side_by_side(server):
    """One thread of the pipeline, and requests that are answered only once four are there; the order is as ever."""
    for number in range(8):
        server.files[f"/{number}"] = bytes([number])
    server.meeting = threading.Barrier(4, timeout=LONG)

    @pipeline_def(batch_size=4, num_threads=1, prefetch_queue_depth=2, seed=1)
    def define():
        return fn.readers.file(files=f"{server.url}/{{0..7}}", random_shuffle=True, name="files")

    def epochs(pipe):
        return [[(samples(a), samples(b)) for a, b in pipe.epoch()] for _ in range(2)]

    pipe = define()
    seen = next(pipe.epoch())
    assert samples(seen[0]) == samples(seen[1])
    server.meeting = None
    del pipe
    found = epochs(define())
    assert sorted(x for a, _ in found[0] for [x] in a) == list(range(8))
    assert found == epochs(define())


class Shelf:
    """Samples of 100 bytes one after another in a file, which are read in spans or one by one."""

    def __init__(self, url, count, order=None, in_spans=True):
        self.url, self.far, self.fetched = url, True, []
        self.order = order or Order(count)
        if in_spans:
            self.spans = lambda index: [(url, 100 * index, 100)]
            self.assembled = lambda index, parts: (parts[0],)

    def __len__(self):
        return self.order.size

    def fetch(self, index):
        self.fetched.append(index)
        return (remote.read_part(self.url, 100 * index, 100),)


def walk(reader, batches, size=5, take=True, ending="fill"):
    """The indices of the next batches; each sample has the right bytes."""
    seen = []
    for _ in range(batches):
        indices = reader.next(Request(size, 0, 0, 0, ending=ending)).outputs[0].tolist()
        for index in indices if take else []:
            assert bytes(reader.fetch(index)[0]) == bytes([index]) * 100
        seen += indices
    return seen


def shelf_reader(server, in_spans=True, count=200, **order):
    server.files["/shelf"] = b"".join(bytes([n]) * 100 for n in range(count))
    shelf = Shelf(server.url + "/shelf", count, in_spans=in_spans)
    return Reader(lambda: shelf, order), shelf


def test_neighbours_come_with_one_request(server):
    """In order, all samples of the window are pieces of few requests; none is read one by one."""
    reader, shelf = shelf_reader(server)
    assert walk(reader, 40) == list(range(200))
    assert shelf.fetched == []
    assert len(server.requests) <= 4  # this epoch, and what is read ahead of the next one


@pytest.mark.parametrize("in_spans", [True, False])
def test_the_batches_to_come_are_read_in_any_order(server, monkeypatch, in_spans):
    """Shuffled, over the ends of epochs, after a restored state and a jump, every sample is the right one."""
    monkeypatch.setattr(ahead, "ALONE", 30)
    reader, shelf = shelf_reader(server, in_spans, count=40, random_shuffle=True)
    plain = Reader(lambda: range(40), {"random_shuffle": True})
    first = walk(reader, 18)
    assert first == [x for _ in range(18) for x in plain.next(Request(5, 0, 0, 0)).outputs[0].tolist()]
    state = reader.state()
    following = walk(reader, 9)
    reader.restore(state)
    assert walk(reader, 9) == following
    reader.seek(3, 0, 5, 0)
    assert walk(reader, 4) == first[15:35]
    assert bool(shelf.fetched) != in_spans


def test_little_of_the_next_epoch_is_read(server, monkeypatch):
    """It may never come: after the end of an epoch there is room for less, and for nothing where weights may change."""
    monkeypatch.setattr(ahead, "NEXT_EPOCH", 10.0 / ahead.SAMPLES)
    monkeypatch.setattr(ahead, "GAP", -1)
    reader, _ = shelf_reader(server)
    ahead_of_it = []
    for _ in range(41):
        walk(reader, 1, ending="partial")
        ahead_of_it.append(len(reader._ahead._planned))
    assert ahead_of_it == [*range(41, 1, -1), 41]
    reader._ahead._threads.shutdown()
    server.files["/other"] = server.files["/shelf"]
    shelf = Shelf(server.url + "/other", 200, order=Surprising(200))
    unforeseeable = OwnOrder(lambda: shelf, {})
    walk(unforeseeable, 3)
    unforeseeable._ahead._threads.shutdown()
    assert [place for place, _ in server.requests].count("/other") == 15


class Surprising(Order):
    foreseeable = False


class OwnOrder(Reader):
    @property
    def order(self):
        return self.samples.order


@pytest.mark.parametrize(
    ("limit", "most", "in_spans"), [("AHEAD", 3200, True), ("SAMPLES", 32, True), ("ALONE", 32, False)]
)
def test_no_more_is_read_ahead_than_there_is_room_for(server, monkeypatch, limit, most, in_spans):
    """As many bytes or samples as the limit says, and the present batch."""
    monkeypatch.setattr(ahead, limit, most)
    monkeypatch.setattr(ahead, "FIRST", 100)
    monkeypatch.setattr(ahead, "GAP", -1)
    reader, _ = shelf_reader(server, in_spans)
    walk(reader, 1, take=False)
    reader._ahead._threads.shutdown()
    assert len(server.requests) == 5 + 35


def test_samples_that_a_cache_has_are_not_read(server):
    """After some batches of which no sample was taken nothing is requested, until one is taken again."""
    reader, shelf = shelf_reader(server, False)
    walk(reader, 20, take=False)
    assert not reader._ahead._waiting
    before = len(shelf.fetched)
    walk(reader, 20, take=False)
    assert len(shelf.fetched) == before
    walk(reader, 2)
    assert len(shelf.fetched) > before + 10


def test_a_failure_of_a_piece_is_that_of_its_sample(server):
    """A request for many samples fails because of the last one: the others are there."""
    reader, _ = shelf_reader(server, count=20)
    server.files["/shelf"] = server.files["/shelf"][:-50]
    assert walk(reader, 3) == list(range(15))
    reader.next(Request(5, 0, 0, 0))
    assert bytes(reader.fetch(18)[0]) == bytes([18]) * 100
    with pytest.raises(BadData, match="bytes 1900 to 2000 are needed, but the file has 1950"):
        reader.fetch(19)


def test_pieces_of_files():
    """Neighbours share a piece up to its length; a gap, another file and a long sample end it."""
    a = [("a", 0, 10), ("a", 10, 5), ("a", 20 + ahead.GAP, 3), ("a", 0, 4)]
    found = ahead.merged([*a, ("b", 15, 1)])
    assert found[a[0]] == found[a[1]] == found[a[3]] == ("a", 0, 15)
    assert found[a[2]] == a[2]
    assert found["b", 15, 1] == ("b", 15, 1)
    long = [("a", n * ahead.PIECE // 2, ahead.PIECE // 2) for n in range(3)]
    assert ahead.merged(long)[long[0]] == ("a", 0, ahead.PIECE)
    assert ahead.merged(long)[long[2]] == long[2]
    assert ahead.merged([]) == {}


def test_patterns_braces_and_urls_of_this_machine(tmp_path, monkeypatch):
    """In order; what exists by that name is not a pattern; what matches nothing is an error."""
    monkeypatch.chdir(tmp_path)
    for name in ("a-00.tar", "a-01.tar", "a-02.tar", "b.tar", "x[1].tar", "{p,q}.tar", "with space.tar"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "c.tar").write_bytes(b"")
    assert expanded("a-*.tar", "paths") == ["a-00.tar", "a-01.tar", "a-02.tar"]
    assert expanded("a-{02..00}.tar", "paths") == ["a-02.tar", "a-01.tar", "a-00.tar"]
    assert expanded(["{b,a-00}.tar", "z"], "paths") == ["b.tar", "a-00.tar", "z"]
    assert expanded("z{0..10}", "paths") == [f"z{number}" for number in range(11)]
    assert expanded("z{01..2}", "paths") == ["z01", "z02"]
    assert expanded("{a,{b,c{1..2}}}-{x,y}", "paths") == [f"{a}-{b}" for a in ("a", "b", "c1", "c2") for b in "xy"]
    assert expanded("{,a}{b}{1..1}{", "paths") == ["{b}1{", "a{b}1{"]
    assert expanded("{a{b,c}", "paths") == ["{ab", "{ac"]
    assert expanded("{{a,b}}", "paths") == ["{a}", "{b}"]
    assert expanded("{9..11}-{a,b}", "paths") == ["9-a", "9-b", "10-a", "10-b", "11-a", "11-b"]
    assert expanded(["x[1].tar", "{p,q}.tar"], "paths") == ["x[1].tar", "{p,q}.tar"]
    assert expanded("**/c.tar", "paths") == ["in/c.tar"]
    assert expanded("*.tar", "files", str(tmp_path / "in")) == ["c.tar"]
    assert expanded(f"file://{tmp_path}/with%20space.tar", "paths") == [f"{tmp_path}/with space.tar"]
    assert expanded("http://host/{0..1}.tar?x=1", "paths") == ["http://host/0.tar?x=1", "http://host/1.tar?x=1"]
    with pytest.raises(FileNotFoundError, match=r"paths: no file matches n\*\.tar"):
        expanded("n*.tar", "paths")
    with pytest.raises(ValueError, match="file:// names files of this machine"):
        expanded("file://other/a.tar", "paths")
    with pytest.raises(ValueError, match="a server of http cannot say which files it has"):
        expanded("https://host/*.tar", "paths")


def test_readers_take_patterns(tmp_path):
    """Of each reader's own argument."""
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.array([number]))

    @pipeline_def(batch_size=3, num_threads=1)
    def define(files, root):
        return fn.readers.numpy(files=files, file_root=root), fn.readers.file(files=files, file_root=root)[1]

    for files, root in (
        ("*.npy", str(tmp_path)),
        (f"{tmp_path}/{{0..2}}.npy", None),
        (f"file://{tmp_path}/*.npy", None),
    ):
        arrays, labels = define(files, root).run()
        assert samples(arrays) == samples(labels) == [[0], [1], [2]]


def tar_of(numbers):
    """A tar file whose members hold these numbers, 300 times each."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for number in numbers:
            member = tarfile.TarInfo(f"{number}.bin")
            member.size = 300
            tar.addfile(member, io.BytesIO(bytes([number]) * 300))
    return target.getvalue()


def mixture_of(server, folder, shuffle=False):
    """A mixture of two tar files on a server, single files on it, and files of this machine; 60 numbers."""
    for name, numbers in (("a", range(20)), ("b", range(20, 40))):
        server.files[f"/{name}.tar"] = tar_of(numbers)
        (folder / f"{name}.tar").write_bytes(server.files[f"/{name}.tar"])
        write_tar_index(str(folder / f"{name}.tar"), str(folder / f"{name}.idx"))
    for number in range(40, 50):
        server.files[f"/{number}"] = bytes([number]) * 300
    for number in range(50, 60):
        (folder / f"{number}").write_bytes(bytes([number]) * 300)

    @pipeline_def(batch_size=5, num_threads=2, seed=3)
    def define():
        tars = [
            fn.readers.webdataset(
                paths=f"{server.url}/{name}.tar",
                index_paths=str(folder / f"{name}.idx"),
                ext="bin",
                random_shuffle=shuffle,
            )
            for name in "ab"
        ]
        far, _ = fn.readers.file(files=f"{server.url}/{{40..49}}")
        near, _ = fn.readers.file(files=[str(folder / f"{number}") for number in range(50, 60)])
        return fn.mix([*tars, far, near])

    return define()


def numbers_of(batches):
    """The numbers of samples that are 300 times a number."""
    found = []
    for (output,) in batches:
        for sample in output.samples():
            assert bytes(sample) == bytes([sample[0]]) * 300
            found.append(int(sample[0]))
    return found


@pytest.mark.parametrize("shuffle", [False, True])
def test_neighbours_of_a_mixture_come_with_one_request(server, tmp_path, shuffle):
    """Each tar file comes in a few requests, not one for each sample, also between other files of a mixture."""
    pipe = mixture_of(server, tmp_path, shuffle)
    before = len(server.requests)  # sizes
    assert sorted(numbers_of(pipe.epoch())) == list(range(60))
    del pipe
    requests = [place for place, _ in server.requests[before:]]
    assert 1 <= requests.count("/a.tar") <= 4
    assert 1 <= requests.count("/b.tar") <= 4
    assert {f"/{number}" for number in range(40, 50)} <= set(requests)


def test_a_mixture_survives_faults_of_its_server(server, tmp_path, patient):
    """The samples are the same, in the same order, whatever fails on the way."""
    expected = numbers_of(mixture_of(server, tmp_path).epoch())
    server.faults = [*FAULTS, *FAULTS]
    assert numbers_of(mixture_of(server, tmp_path).epoch()) == expected
    assert server.faults == []


def rows_at(server, name="/rows.parquet", count=40, group=4, noise=10_000):
    """A Parquet file on the server: a column of numbers, one of bytes, and one that no test reads."""
    rng = np.random.default_rng(0)
    table = pyarrow.table(
        {
            "number": list(range(count)),
            "unread": [rng.bytes(noise) for _ in range(count)],
            "raw": [bytes([number]) * 300 for number in range(count)],
        }
    )
    target = io.BytesIO()
    parquet.write_table(table, target, row_group_size=group, compression="none", use_dictionary=False)
    server.files[name] = target.getvalue()
    return server.url + name


def parquet_reader(url, order=None, **arguments):
    samples = ParquetReader(paths=url, columns=["number", "raw"], **arguments)
    return Reader(lambda: samples, order or {}), samples


def rows_of(reader, batches, size=4):
    """The numbers of the rows of the next batches; the bytes are compared."""
    found = []
    for _ in range(batches):
        for index in reader.next(Request(size, 0, 0, 0)).outputs[0].tolist():
            number, raw = reader.fetch(index)
            assert bytes(raw) == bytes([int(number)]) * 300
            found.append(int(number))
    return found


def pieces_of(samples):
    """Waits for the bytes that were requested; the groups they belong to."""
    for requested in samples._pieces.values():
        for piece in requested:
            piece.future.result()
    return sorted(samples._pieces)


def test_groups_of_rows_are_requested_before_they_are_needed(server):
    """One batch asks for all groups for which there is room, without the column that is not read."""
    reader, samples = parquet_reader(rows_at(server))
    opening = len(server.requests)
    assert opening <= 2 + 4  # the size and the footer, and the first two groups
    reader.next(Request(4, 0, 0, 0))
    ahead_of_it = pieces_of(samples)
    assert set(range(2, 10)) <= set(ahead_of_it)
    assert rows_of(reader, 9) == list(range(4, 40))
    assert len(server.requests) <= opening + 2 * 10 + 2
    asked = sum(int(part[6:].split("-")[1]) - int(part[6:].split("-")[0]) + 1 for _, part in server.requests[2:])
    assert asked < len(server.files["/rows.parquet"]) // 4


@pytest.mark.parametrize(
    ("order", "arguments"),
    [({}, {}), ({"random_shuffle": True}, {"shuffle_window": 8}), ({"random_shuffle": True}, {})],
    ids=["in order", "in windows", "shuffled"],
)
def test_rows_read_ahead_are_the_rows_of_the_file(server, tmp_path, monkeypatch, patient, order, arguments):
    """In any order, over the ends of epochs, after a restored state and a jump, with room for few groups and with faults."""
    monkeypatch.setattr(groups_ahead, "AHEAD", 3000)
    monkeypatch.setattr(ahead, "GAP", -1)
    url = rows_at(server)
    (tmp_path / "rows.parquet").write_bytes(server.files["/rows.parquet"])
    near, _ = parquet_reader(str(tmp_path / "rows.parquet"), dict(order, seed=5), **arguments)
    expected = rows_of(near, 25)
    server.faults = list(FAULTS)
    reader, _ = parquet_reader(url, dict(order, seed=5), decoded_bytes=0, **arguments)
    assert rows_of(reader, 25) == expected
    assert server.faults == []
    state = reader.state()
    following = rows_of(reader, 5)
    reader.restore(state)
    assert rows_of(reader, 5) == following
    reader.seek(3, 0, 4, 0)
    assert rows_of(reader, 4) == expected[12:28]


def test_no_more_groups_are_requested_than_there_is_room_for(server, monkeypatch):
    """Up to the first group that fills the room; of the next epoch one group at most, and none while others wait."""
    monkeypatch.setattr(groups_ahead, "AHEAD", 2000)
    monkeypatch.setattr(ahead, "GAP", -1)
    reader, samples = parquet_reader(rows_at(server))
    rows_of(reader, 4)
    assert samples.requested() < 2000 + 1500
    assert len(pieces_of(samples)) <= 2
    rows_of(reader, 6)
    assert len(pieces_of(samples)) <= 1


def test_a_mixture_requests_the_groups_of_its_readers(server, tmp_path):
    """Two Parquet files and a tar file: all rows are right, and the groups were requested ahead."""
    urls = [rows_at(server, "/a.parquet", 12), rows_at(server, "/b.parquet", 12)]
    server.files["/c.tar"] = tar_of(range(12))
    (tmp_path / "c.tar").write_bytes(server.files["/c.tar"])
    write_tar_index(str(tmp_path / "c.tar"), str(tmp_path / "c.idx"))

    @pipeline_def(batch_size=6, num_threads=2, seed=3)
    def define():
        rows = [fn.readers.parquet(paths=url, columns="raw") for url in urls]
        index = str(tmp_path / "c.idx")
        return fn.mix([*rows, fn.readers.webdataset(paths=server.url + "/c.tar", index_paths=index, ext="bin")])

    pipe = define()
    assert sorted(numbers_of(pipe.epoch())) == sorted([*range(12)] * 3)
    mixture = pipe._built().sources[0].source.samples
    pipe.reset()
    indices = np.array([30, 3, 13, 0, 12, 35])
    assert mixture.groups(indices) == [(0, 0), (1, 0)]


def test_a_group_that_cannot_be_read_is_read_again_with_the_next_row(server, patient):
    """A request that fails for good is the error of the rows that need it; later ones ask again."""
    url = rows_at(server, count=12)
    reader, samples = parquet_reader(url)
    [indices] = reader.next(Request(12, 0, 0, 0)).outputs
    pieces_of(samples)
    samples.forget()
    server.faults = [404] * 2
    with pytest.raises(FileNotFoundError, match="404"):
        reader.fetch(indices[11])
    server.faults = []
    assert int(reader.fetch(indices[11])[0]) == 11
