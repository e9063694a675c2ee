"""fn.readers.caffe and fn.readers.caffe2: LMDB databases, the messages in them, and what is wrong with either."""

import base64
import struct
import zlib

import numpy as np
import pytest
from image.oracle import ask, case
from readers import records
from readers.conformance import check_reader
from readers.records import message, varint

from pipeflow import fn, pipeline_def
from pipeflow.errors import BadData
from pipeflow.operators.readers.caffe import CaffeReader
from pipeflow.operators.readers.caffe2 import Caffe2Reader
from pipeflow.operators.readers.lmdb import places

# Databases that the LMDB library wrote: three records, one of them on pages of its own, and 300 on several leaves.
TINY = (
    "c-rmTJ!%3$6ae5EH$_adf{+7jlP!(amacmh4`Y`bg;e4hEIfhW5lmKhL=+^23l`s3%pVVCnC{JELP%bZ?e=H?9mA#BsT-"
    "w;`wpG(PboeI0001>FR|DBKi=#!==$tx{&I630002sQ3e;I_pr)$`6gfG?gan<0G`iVm%&e_Mb<P;xsFx*8n@N-zqQX)YagblNs-"
    "lcU4|;2>+o#_zI_WQmLGEf0001>cjcn;8wLOXc${Cr05di"
)
DEEP = (
    "c-"
    "rmSf4J877zgm@`99z0*Y{_VBpf+1M~*zde@t>DA(Lc|NhV1$nIt)qY^}Ak)>><4?X0!dT5IiWGD+r0GD&hwCX*xynWQC?Oq%Du@A}?vT$jrq"
    "`ond7-hZ6Vspob6dB3kt_wy|lJD&`HJh=VIZSfeUO@8Tj{uTc@&zwu_zs&j9$73cYCMG5(CMG5(CMG5(CKoF43wr-"
    "s(f7Ch<#ny+{=km?^RMQ80231v6B82?6B82?6BCpFeJuEFYkYtFM0hBCG~5<$3|ECq!g=8p;lyxkSPNUiL18L96&wln20Mby!P;PXuppQjOb"
    "*5eBZJ{VQ{V+>{A2!pf4AT3Z}7YQPJfO+&2RTd`z3#<-`}_Vline3kGI|1=&kmadh@&)-Xw3Vcd<9j8{}oY)9w-"
    "Xad)S?*<I&$xeMG`?i6>t+veunCO2@;I>(#?PM_23^f)V>PN&0}?zB5&oQgBl8Q|E?$?W0mW7+N5hq7z3OSAK{S7s+=FUgL`4$BVCI@!~iCo"
    "=moJ2P7{>oZ-Mg_+rzDVYhGQJGw3NTy%rZ2EZmV7f28HT__EWqNVCBRwtMo*tbpq?^<I(q~i0QwLJJQ@yDTsTHY3soAM1sR^mJ)bLbO%1b?+"
    "Jeu5>+?m{xT$fy)T#%fZygWHBIU+eMIXIa~p0bbFd+kT;P4*glsXgDGVNbNj+BN$kd!TLGCliMgdlK6c8xyM%ixYDb(-"
    "ZB9F^N*5Inh56OB}ZjT76cp)nj#Ai>x`;RBM7Y%F0<yR$!fpA8mBC3*IbA@yA50kS{gIJ6ax($CA<S6q{o$KaQuPuM5pqM@P%vxSBkfAEC)L"
    "%wuYDbv8d#ldF;01148(m>+<tuz3_rnauamlp3ZFOp(p^z!b>rMw4%t?}Ev(*%g_5y-"
    "wykYV!43!|aSqzFuYXZ7>xwJJ6IH=38J&Y#sqqB=b!)g@)M<CeP*@U~*)(fvMFS=Id%|H8xw-"
    ")T(5@hNjXmy<p00z6yqS@Gu(M!B@b@4z_^d9ef!L?O?N-s_fuPYO1`0O<=0DgD--S9Xtevckl%?w1bUcWCx!I!#j8o4ej6oFtURlH5J~${a`"
    "AzgAHmbvV;4;@DA3ap&i@{Ms~0c4Da9`G_-"
    "@YU}Oh(gW(;l0aK<O+@+>0J6Nrz%saRf4eekR7}>!cV0Z^B(a;WV2O~S^2E#kJ4GryJg_@G=;8ryy-"
    "a!|b67Ap?FtUT?V0Z^NqoExv10y@Q2@LOGDH__rjbLO4OVkv32RDEz(he4@DasD62g5t)L_<5c4vg$z5g6XVwP<Ju3&F?^t^vb4SOBI#JGfd"
    "+L3VIeTwlRE_?#VmO)Hom{S3$#WCfpv@5w8er-C-"
    "{84$98xgdB0pH@K&=unZD1$;_Ho)<7D5_#(XlOUx3*&w+8PpF{wXMvFRKMsQ1pQ(bn{}>4A{z?@&?*5~Z$Wik%ROF=jkAUFjuTVj~e;9=HJ{"
    "<)2{vj3A`ZN&I`UgR9>r>B*T%9`qKqPW?>3m8ga&_+f{VJ&Q$snZj_krNfFIPdGzZZmbJ_!VO{vH+7`9u{p>HOU)YTWr{k*HDU?*bv6w}ar$"
    "->HH+zZ8UY{tgh_`2-cz`P)HA=i^mWx%0P0qDq~QQ&E-9-"
    "wJ{|zeELf{uU6@`B)I#`I}Wx=WhZboxc$TcRnT(73%yADk{?XXcZOi{PilR^HCtA^Vfmk&f8Q_=dT4JosR^;oxer}bv{BxSvr5UiZXY8aU{y"
    "rc^!mwUIW3MS5;8w6%f*S83cD;QbC;;K}hEX6(#OGABhrmo>Nhh&R+$BJ0GrsI)5by>AV#Lcm4_$)cG(F()r6laOW+NC{pJyQ&E)8FH%wD&R"
    "?p6Iv)x`I)4cW?z~wAb^c-y()kb&-1&=CQ0Gl53ex!tRTQ}M7et~!oj)IhbUqjacm6yT)cGI~()n{iaOVS6Q0LD9A)OCUk>}2z9f>@3-"
    "d{ytI)4@j?!2E0>O2G?od+Peb6*8@?tzfbT@c*46Nwyko>h^P&NC`<+<96Bb)EttohLzX=e7#!JOM&Fw?J^`aTU}#eFpb`tkpRl9tiuw-"
    "f%<M9WDxIhf~7|VOy9Bn?f%<6C4fp1-pVR!MdR9-"
    "1R>$7!kAvgM&<P+CSp&^>_H2{5AeEf4)D%pX87AYkrGA(6{}kyu;^i|5e@+Z>~4pyUZKomAs)|e=p{pa1XkD?pC+Q?RGoeIqp>VQg>A2@*mQ"
    ";{LeHl|NYJ`=V52P)8#C5W;v6c@y<x6)iLkhn3$NDn3$NDT-ZeKxYy-"
    "Ac)*I@rLXgS(4+s}EY#^jxZhGE7s3WGd?DP2hHixQVB|))7YyGB>(J1Za1R){64t7z@s)5lm>S&)Yt+=_PPhvU-wCVH(4}xE7`YTyf#FNx4m"
    "5NttOO&s!tG%AR_F#(rEB3fHC4G5R;a1+wQwsMx)-{@$h~k27`_*lqoIr8W-xLwECa(A!%b-"
    "DW>~7GB0IQIO@()`1Wbi?a03|G!D2AHgX_`I4m!ce4z2^kJ6ME<c5p2i*}+0JW!}LxV9K<E1!~H&gR8;t4z5B&J9tK)K9yw$XZ49ynRoDacw"
    "$wi9h?CpJNO$I-"
    "oevgO0<K&swv41POB;L4*r6Mc5n)e?BLH}cn43Rp&k4QjO^ef7~a7j(a;V~s42=0o>Wuh9UKQ!q#gVLjO^eT7~a9}(a;W#f{`8k4h-"
    "+$2{g2W--3}H98pu?9sCANfp+j~H3iwhufXsQ4x^zR{1S}p;1C$z!7tFz4i18m9sC>&@8AGFiKQL<44&S~4)(*-"
    "Ti(G>(a;X|fsq~jB>wMDiS6ib_jqhT>{xg@JQkXtbS5SyCMG5(CMG5(CMG8Tze(uzAN{}oe*kI!2^;"
)


def datum(data=b"", label=None, **more):
    """A Datum whose data is an encoded image."""
    return message(f4=data, **({} if label is None else {"f5": label}), **{"f7": 1, **more})


def tensor(kind, dims=(1,), **values):
    return b"".join(b"\x08" + varint(extent) for extent in dims) + message(f2=kind, **values)


def floats(*values):
    return tensor(1, (len(values),), f3=struct.pack(f"<{len(values)}f", *values))


def integers(*values):
    return tensor(2, (len(values),), f4=b"".join(map(varint, values)))


def protos(*tensors):
    return b"".join(records.field(1, one) for one in tensors)


PICTURE = tensor(4, f6=b"PICTURE")


def write(folder, values, name="db", **form):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "data.mdb").write_bytes(records.lmdb(values, **form))
    return str(folder / name)


def text(array):
    return np.frombuffer(array, np.uint8)


def label(*numbers):
    return np.array(numbers, np.int32)


VALUES = [datum(b"abc", 7), datum(b"x" * 3000, 2**31 - 1), datum(b"", 0), datum(b"de"), datum(b"f" * 100, 3)]
EXPECTED = [(text(b"abc"), label(7)), (text(b"x" * 3000), label(2**31 - 1)), (text(b""), label(0))]
EXPECTED += [(text(b"de"), label()), (text(b"f" * 100), label(3))]


@pytest.mark.parametrize("form", [{}, {"leaf": 1}, {"leaf": 5, "size": 4096}])
def test_the_promises_of_every_reader(tmp_path, form):
    """Records in the order of their keys, on leaves, under branches and on pages of their own."""
    path = write(tmp_path, VALUES, **form)
    check_reader(lambda: CaffeReader(path=path), EXPECTED)


def test_databases_written_by_the_library(tmp_path):
    """Three records with one large value, and 300 on several leaves; given as a folder or as the file."""
    for name, packed in (("tiny", TINY), ("deep", DEEP)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.mdb").write_bytes(zlib.decompress(base64.b85decode(packed)))
    tiny, deep = CaffeReader(path=str(tmp_path / "tiny")), CaffeReader(path=str(tmp_path / "deep" / "data.mdb"))
    expected = [(b"AAA", 0), (b"B" * 5000, 100), (b"CCC", 200)]
    assert [(bytes(tiny.fetch(i)[0]), int(tiny.fetch(i)[1][0])) for i in range(len(tiny))] == expected
    assert [(bytes(deep.fetch(i)[0]), int(deep.fetch(i)[1][0])) for i in range(len(deep))] == [
        (b"x" * (i % 3), i) for i in range(300)
    ]


def test_several_databases_are_read_one_after_the_other(tmp_path):
    """The source says which one and where in it."""
    first, second = write(tmp_path, VALUES[:2], "a"), write(tmp_path, VALUES[4:], "b")
    samples = CaffeReader(path=[first, second])
    assert len(samples) == 3
    assert bytes(samples.fetch(2)[0]) == b"f" * 100
    assert samples.source_info(2) == f"{second}/data.mdb record 0"


def test_a_datum_of_values_has_its_shape(tmp_path):
    """Height, width and channels; a label may be negative; parts can be left out."""
    values = message(f1=3, f2=1, f3=2, f4=b"abcdef", f5=2**64 - 5, f7=0)
    path = write(tmp_path, [values])
    image, number = CaffeReader(path=path).fetch(0)
    assert image.tolist() == [[[97, 98, 99], [100, 101, 102]]]
    assert number.tolist() == [-5]
    assert [x.tolist() for x in CaffeReader(path=path, image_available=False).fetch(0)] == [[-5]]
    assert len(CaffeReader(path=path, label_available=False).fetch(0)) == 1


FORMS = [
    ([PICTURE, integers(7)], {}, [7]),
    ([PICTURE, integers(5, 0, 2, 1)], {"label_type": 2, "num_labels": 4}, [5, 0, 2, 1]),
    ([PICTURE, floats(0.5, 2)], {"label_type": 2, "num_labels": 2}, [0.5, 2]),
    ([PICTURE], {"label_type": 4}, None),
    ([PICTURE, integers(7), floats(1, 2, 3), integers(8, 9)], {"additional_inputs": 2}, [7], [1, 2, 3], [8, 9]),
    ([PICTURE, integers(7), integers(1, 2, 3, 4)], {"bbox": True}, [7], [1, 2, 3, 4]),
    (
        [PICTURE, integers(7), floats(1), integers(1, 2, 3, 4)],
        {"bbox": True, "additional_inputs": 1},
        [7],
        [1],
        [1, 2, 3, 4],
    ),
]
OWN = [  # DALI fails on these
    ([PICTURE, integers(1, 3)], {"label_type": 1, "num_labels": 5}, [0, 1, 0, 1, 0]),
    ([PICTURE, integers(1, 3), floats(0.25, 0.5)], {"label_type": 3, "num_labels": 5}, [0, 0.25, 0, 0.5, 0]),
]


@pytest.mark.parametrize("form", FORMS + OWN)
def test_forms_of_labels_and_more(tmp_path, form):
    """One label, several, vectors, weights, none; further tensors and a box; types as they are stored."""
    tensors, options, *expected = form
    outputs = Caffe2Reader(path=write(tmp_path, [protos(*tensors)]), **options).fetch(0)
    assert bytes(outputs[0]) == b"PICTURE"
    assert [x.tolist() for x in outputs[1:]] == [row for row in expected if row is not None]
    assert {x.dtype.name for x in outputs[1:]} <= {"int32", "float32"}


def test_images_of_bytes_and_records_without_one(tmp_path):
    """Bytes have their extents; without images the labels come first."""
    path = write(tmp_path, [protos(tensor(3, (1, 2, 3), f5=b"abcdef"), integers(4))])
    assert Caffe2Reader(path=path).fetch(0)[0].tolist() == [[[97, 98, 99], [100, 101, 102]]]
    path = write(tmp_path, [protos(integers(4))])
    check_reader(lambda: Caffe2Reader(path=write(tmp_path, [protos(integers(n)) for n in range(4)]), image_available=False),
                 [(label(n),) for n in range(4)])  # fmt: skip


@pytest.mark.parametrize(
    ("value", "message_"),
    [
        (b"\xff", "damaged Datum: a number runs over the end"),
        (datum(b"abcdefgh", 3)[:-3], "damaged Datum: a number runs over the end"),
        (b"\x22" + varint(2**40) + b"abc", "damaged Datum: a field of 1099511627776 bytes where 3 are left"),
        (b"\x28" + b"\xff" * 20, "damaged Datum: a number of more than ten bytes"),
        (b"\x0b", "damaged Datum: wire type 3"),
        (message(f5=2**40), "the label 1099511627776 is not a number of 32 bits"),
        (message(f1=3, f2=2, f3=2, f4=b"abc", f7=0), "3 bytes for an image of 2 by 2 with 3 channels"),
        (message(f1=3, f2=2, f3=2, f7=0), "floating point values, or of none"),
    ],
)
def test_damaged_datums(tmp_path, value, message_):
    """The database and the record's number are in the message."""
    with pytest.raises(BadData, match=r"db/data\.mdb record 0: .*" + message_):
        CaffeReader(path=write(tmp_path, [value])).fetch(0)


@pytest.mark.parametrize(
    ("tensors", "options", "message_"),
    [
        ([PICTURE], {}, "the record has 1 tensor, 2 are needed"),
        ([PICTURE, integers(1, 2)], {}, "2 labels; label_type 0 is for one"),
        ([PICTURE, floats(1)], {}, "a tensor of int32 is needed, got type 1"),
        ([PICTURE, integers(1, 7)], {"label_type": 1, "num_labels": 7}, r"labels \[1, 7\] must be from 0 to 6"),
        ([PICTURE, integers(1), floats(1, 2)], {"label_type": 3}, "2 weights for 1 label"),
        ([tensor(3, f5=b"abc"), integers(1)], {}, "the image must be one string, or bytes with three extents"),
        ([PICTURE, integers(2**40)], {}, "a number is not one of 32 bits"),
        ([PICTURE, integers(1, 2**31)], {"label_type": 1, "num_labels": 7}, "a number is not one of 32 bits"),
        ([PICTURE, tensor(2, f4=b"\xff")], {}, "damaged TensorProtos"),
    ],
)
def test_damaged_tensors(tmp_path, tensors, options, message_):
    """What is needed and what there is."""
    with pytest.raises(BadData, match=r"db/data\.mdb record 0: " + message_):
        Caffe2Reader(path=write(tmp_path, [protos(*tensors)]), **options).fetch(0)


def changed(data, **places_):
    """The file with numbers of 8 bytes put at places."""
    data = bytearray(data)
    for place, value in places_.items():
        size = {"q": 8, "h": 2, "i": 4}[place[0]]
        data[int(place[1:]) : int(place[1:]) + size] = value.to_bytes(size, "little")
    return bytes(data)


ROOT = 512 + 128  # the root of the tree in the second description
SOUND = records.lmdb(VALUES)


@pytest.mark.parametrize(
    ("data", "message_"),
    [
        (b"", "bytes 0 to 152 are not inside the file of 0"),
        (bytes(2000), "is not an LMDB database of version 1"),
        (changed(SOUND, i40=1000), "pages of 1000 bytes"),
        (changed(SOUND, **{f"q{ROOT}": 2**40}), "are not inside the file"),
        (changed(SOUND, **{f"q{ROOT}": 0}), "page 0 is damaged: its nodes end at 0"),
        (changed(SOUND, **{f"q{ROOT - 8}": 9}), "states 9 records and holds 5"),
        (changed(SOUND, **{f"h{ROOT - 36}": 4}), "another kind than of one value for each key"),
        (records.lmdb([]), "has no records"),
        (SOUND[: 512 * 5], "are not inside the file"),
    ],
)
def test_damaged_databases(tmp_path, data, message_):
    """Every number in the file is checked before it is used."""
    path = tmp_path / "damaged.mdb"
    path.write_bytes(data)
    with pytest.raises(BadData, match=r"damaged\.mdb.*" + message_):
        places(str(path))


def test_pages_that_lead_back_or_nowhere(tmp_path):
    """A branch that points to itself, to one page twice or behind the file is an error and no endless walk."""
    good, path = records.lmdb(VALUES * 20, leaf=4), tmp_path / "damaged.mdb"
    size = struct.unpack("<I", good[40:44])[0]
    branches = [at for at in range(2 * size, len(good), size) if struct.unpack("<H", good[at + 10 : at + 12])[0] == 1]
    leaf = next(at for at in range(2 * size, len(good), size) if struct.unpack("<H", good[at + 10 : at + 12])[0] == 2)
    assert len(branches) > 2
    for at in branches:
        for target, message_ in (
            (at // size, "is in the tree twice"),
            (leaf // size, "is in the tree twice"),
            (2**31, "are not inside the file"),
        ):
            bad = bytearray(good)
            for node in range((struct.unpack("<H", good[at + 12 : at + 14])[0] - 16) // 2):
                place = at + struct.unpack("<H", good[at + 16 + 2 * node : at + 18 + 2 * node])[0]
                struct.pack_into("<IH", bad, place, target & 0xFFFFFFFF, 0)
            path.write_bytes(bytes(bad))
            with pytest.raises(BadData, match=r"damaged\.mdb: .*" + message_):
                places(str(path))


def test_any_damage_is_an_error_of_the_data_or_data(tmp_path):
    """Bytes changed at random, anywhere or among the numbers of pages, give arrays or BadData, nothing else."""
    path, rng = tmp_path / "damaged.mdb", np.random.default_rng(3)
    refused = 0
    for number in range(400):
        bad = np.frombuffer(SOUND, np.uint8).copy()
        where = rng.integers(0, len(bad), 3) if number % 2 else rng.integers(0, 40, 3) + 512 * rng.integers(0, 9, 3)
        bad[where % len(bad)] = rng.integers(0, 256, 3)
        path.write_bytes(bad.tobytes())
        try:
            samples = CaffeReader(path=str(path))
            for place in range(len(samples)):
                samples.fetch(place)
        except BadData:
            refused += 1
    assert 50 < refused < 400


def test_wrong_arguments(tmp_path):
    """Nothing to read, unknown forms of labels."""
    path = write(tmp_path, VALUES)
    with pytest.raises(ValueError, match="'image_available' and 'label_available' leave nothing to read"):
        CaffeReader(path=path, image_available=False, label_available=False)
    with pytest.raises(ValueError, match="label_type must be from 0 to 4, got 5"):
        Caffe2Reader(path=path, label_type=5)
    with pytest.raises(ValueError, match="num_labels must be at least 1, got 0"):
        Caffe2Reader(path=path, num_labels=0)
    with pytest.raises(ValueError, match="'path' is an empty list"):
        CaffeReader(path=[])


def test_the_number_of_outputs_in_a_pipeline(tmp_path):
    """As many as are wanted, by the former name too."""
    path = write(tmp_path, [protos(PICTURE, integers(7), floats(1, 2), integers(3))])

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define(read):
        return tuple(read(path=path, additional_inputs=2))

    with pytest.warns(DeprecationWarning, match="readers.caffe2"):
        former = define(fn.caffe2_reader)
    for pipe in (define(fn.readers.caffe2), former):
        assert [np.asarray(output[0]).size for output in pipe.run()] == [7, 1, 2, 1]


@pytest.mark.oracle
def test_dali_reads_the_same(tmp_path):
    """The databases that the tests write are ones that the LMDB library reads, and each output is DALI's."""
    caffe = write(tmp_path, [*VALUES, message(f1=3, f2=1, f3=2, f4=b"abcdef", f5=2**64 - 5, f7=0)])
    asked = [("readers.caffe", CaffeReader, {"path": caffe, "num_shards": 6, "shard_id": i}) for i in range(6)]
    for number, (tensors, options, *_) in enumerate(FORMS):
        path = write(tmp_path, [protos(*tensors)], f"c{number}")
        asked.append(("readers.caffe2", Caffe2Reader, {"path": path, **options}))
    for (name, kind, options), (outputs, text_) in zip(
        asked, ask([case(name, **options) for name, _, options in asked]), strict=True
    ):
        assert not isinstance(outputs, str), (name, options, outputs, text_)
        place = options.get("shard_id", 0)
        own = {key: value for key, value in options.items() if "shard" not in key}
        for ours, theirs in zip(kind(**own).fetch(place), outputs, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
