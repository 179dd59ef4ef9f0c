import struct

import numpy as np
import pytest

from engine.contract.errors import UnsupportedError
from engine.models.flatfile import (
    ALIGNMENT,
    HEADER_BYTES,
    FlatLayer,
    FlatModel,
    FlatNode,
    FlatStage,
    FlatTensor,
    encode,
    write_flat,
)


def sample() -> FlatModel:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensors = (
        FlatTensor("x", "float32", (2, 3)),
        FlatTensor("w", "float32", (2, 3), data=weights),
        FlatTensor("v", "int64", (), data=np.array(7, dtype=np.int64)),
        FlatTensor("sum", "float32", (2, 3)),
        FlatTensor("y", "float32", (2, 3)),
        FlatTensor("flat", "float32", (6,), alias=4),
    )
    attributes = {"axis": [1], "alpha": [0.5], "mode": "edge"}
    node = FlatNode("Add", "n", (0, 1, None), (4,), attributes, (FlatStage("Relu", 4),), raw=3)
    return FlatModel(tensors, (node,), (FlatLayer("y", "Relu", 4, 0),), (0,), (5,))


def sections(data: bytes) -> list[tuple[int, int]]:
    return [struct.unpack_from("<QQ", data, 24 + 16 * index) for index in range(6)]


def test_header_and_sections():
    data = encode(sample())
    assert data[:8] == b"REFRTMDL"
    assert struct.unpack_from("<IIQ", data, 8) == (1, HEADER_BYTES, len(data))
    assert struct.unpack_from("<I", data, 120) == (1,)
    position = HEADER_BYTES
    for offset, size in sections(data):
        assert offset == position
        assert offset % ALIGNMENT == 0
        position += size + -size % ALIGNMENT
    assert position == len(data)


def test_constants_are_aligned_and_in_order():
    data = encode(sample())
    tensors, weights = sections(data)[1], sections(data)[5]
    records = [struct.unpack_from("<IBBHiIqq8q", data, tensors[0] + 96 * index) for index in range(6)]
    assert [record[6] for record in records] == [-1, 0, 64, -1, -1, -1]
    assert [record[4] for record in records] == [-1, -1, -1, -1, -1, 4]
    assert records[1][1:3] == (1, 2)
    assert records[1][7:11] == (24, 2, 3, 0)
    assert data[weights[0] : weights[0] + 24] == np.arange(6, dtype="<f4").tobytes()
    assert data[weights[0] + 64 : weights[0] + 72] == np.array(7, dtype="<i8").tobytes()


def test_the_same_model_gives_the_same_bytes():
    assert encode(sample()) == encode(sample())


def test_big_endian_and_strided_constants_are_stored_plainly():
    plain = np.arange(6, dtype=np.float32).reshape(2, 3)
    odd = np.asfortranarray(plain).astype(">f4")
    models = [FlatModel((FlatTensor("w", "float32", (2, 3), data=value),), (), (), (), (0,)) for value in (plain, odd)]
    assert encode(models[0]) == encode(models[1])


def test_beyond_the_format_is_named():
    tensor = FlatTensor("deep", "float32", (1,) * 9)
    with pytest.raises(UnsupportedError, match=r"tensor 'deep' is float32\[1, 1, .*; refrt takes rank 8 and 1 GiB"):
        encode(FlatModel((tensor,), (), (), (), (0,)))


def test_a_constant_that_lies_about_its_shape():
    tensor = FlatTensor("w", "float32", (2,), data=np.zeros(3, dtype=np.float32))
    with pytest.raises(ValueError, match="constant 'w' has 12 bytes, its shape 8"):
        encode(FlatModel((tensor,), (), (), (), (0,)))


def test_the_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    write_flat(sample(), tmp_path / "m.refrt")
    assert [path.name for path in tmp_path.iterdir()] == ["m.refrt"]
    before = (tmp_path / "m.refrt").read_bytes()
    broken = FlatModel((FlatTensor("deep", "float32", (1,) * 9),), (), (), (), (0,))
    with pytest.raises(UnsupportedError):
        write_flat(broken, tmp_path / "m.refrt")
    assert (tmp_path / "m.refrt").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m.refrt"]
