"""Views of tensors against numpy views of the same array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nki_kernels import in_kernel, normal, tile_of

from neuron_lab import nki
from neuron_lab.nki import language as nl
from neuron_lab.nki.layout import Layout, LayoutError, reshaped, row_major


def hbm_view(view, array):
    """What `view(tensor)` of an HBM argument shows."""

    def kernel(a):
        seen = view(a)
        out = nl.ndarray(seen.shape, seen.dtype, buffer=nl.shared_hbm)
        out[...] = seen
        return out

    return nki.simulate(kernel)(array)


@st.composite
def slices(draw):
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    key = []
    for size in shape:
        if draw(st.booleans()):
            start = draw(st.integers(0, size - 1))
            key.append(slice(start, draw(st.integers(start + 1, size)), draw(st.integers(1, 3))))
        else:
            key.append(draw(st.integers(-size, size - 1)))
    return tuple(shape), tuple(key)


@settings(max_examples=60, deadline=None)
@given(slices())
def test_hbm_indexing_is_numpys(case):
    shape, key = case
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    wanted = x[key]
    np.testing.assert_array_equal(hbm_view(lambda t: t[key], x), wanted.reshape(wanted.shape or (1,)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_reshape_is_numpys_wherever_a_view_exists(sizes, data):
    order = data.draw(st.permutations(range(len(sizes))))
    source = np.arange(np.prod(sizes)).reshape(sizes).transpose(order)
    target = data.draw(st.permutations([*source.shape, 1]))
    old = Layout(source.shape, tuple(row_major(sizes)[axis] for axis in order), 0)
    flat = np.arange(np.prod(sizes))
    try:
        new = reshaped(old, target)
    except LayoutError:
        copied = source.reshape(target)
        assert not np.shares_memory(copied, source)
        return
    steps = tuple(stride * flat.itemsize for stride in new.strides)
    np.testing.assert_array_equal(
        np.lib.stride_tricks.as_strided(flat, new.shape, steps), source.reshape(target)
    )


def test_on_chip_indexing_never_has_fewer_than_two_axes():
    def body():
        t = nl.ndarray((8, 4, 6), nl.float32)
        assert t[3].shape == (1, 4, 6)
        assert t[3, 2].shape == (1, 6)
        assert t[:, 1, 2].shape == (8, 1)
        assert t[..., -1].shape == (8, 4)
        assert t[2:4, nl.ds(1, 2), ::2].shape == (2, 2, 3)

    in_kernel(body)


@pytest.mark.parametrize(
    ("view", "reference"),
    [
        (lambda t: t.slice(1, 1, 4), lambda x: x[:, 1:4]),
        (lambda t: t.select(2, 3), lambda x: x[:, :, 3]),
        (lambda t: t.permute((0, 2, 1)), lambda x: x.transpose(0, 2, 1)),
        (lambda t: t.expand_dim(1), lambda x: x[:, None]),
        (lambda t: t[:, 0:1].squeeze_dim(1), lambda x: x[:, 0]),
        (lambda t: t[:, 0:1].broadcast(1, 3), lambda x: np.broadcast_to(x[:, 0:1], (8, 3, 6))),
        (lambda t: t.reshape_dim(2, (2, -1)), lambda x: x.reshape(8, 4, 2, 3)),
        (lambda t: t.flatten_dims(1, 2), lambda x: x.reshape(8, 24)),
        (lambda t: t.reshape((8, 12, 2)), lambda x: x.reshape(8, 12, 2)),
        (
            lambda t: t.rearrange(("p", "a", ("b", "c")), ("p", "c", ("a", "b")), {"c": 2}),
            lambda x: x.reshape(8, 4, 3, 2).transpose(0, 3, 1, 2).reshape(8, 2, 12),
        ),
        (lambda t: t.ap([[24, 8], [1, 5], [6, 4]], offset=1), lambda x: x.transpose(0, 2, 1)[:, 1:6]),
        (lambda t: t.view(nl.int16), lambda x: x.view(np.int16)),
        (lambda t: t.reinterpret_cast(nl.uint32), lambda x: x.view(np.uint32)),
    ],
)
def test_a_view_method_shows_what_numpy_shows(view, reference):
    x = normal(8, 4, 6)
    try:
        result = tile_of(view, x)
    except nki.NkiValidationError as refused:
        pytest.fail(str(refused))
    np.testing.assert_array_equal(result, reference(x))


def test_a_joined_group_that_is_not_contiguous_is_refused():
    with pytest.raises(nki.NkiValidationError, match="axes 1–2 are not contiguous"):
        in_kernel(lambda: nl.ndarray((8, 4, 6), nl.float32)[:, :, 0:3].flatten_dims(1, 2))


def test_views_share_their_storage():
    x = normal(4, 6)

    def body(t):
        t[:, 0:2] = 0.0
        return t

    result = tile_of(lambda t: body(t), x)
    assert (result[:, :2] == 0).all()
    np.testing.assert_array_equal(result[:, 2:], x[:, 2:])


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.permute((1, 0)),
        lambda t: t.broadcast(0, 4),
        lambda t: t.squeeze_dim(0),
        lambda t: t.expand_dim(0),
        lambda t: t.reshape((8, 2)),
        lambda t: t.flatten_dims(0, 1),
        lambda t: t.reshape_dim(0, (2, 2)),
        lambda t: t.rearrange(("a", "b"), ("b", "a")),
    ],
)
def test_no_view_changes_the_partition_axis(change):
    with pytest.raises(nki.NkiValidationError, match="partition axis"):
        in_kernel(lambda: change(nl.ndarray((4, 4), nl.float32)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda t: t[0:9], r"\[0:9\] of axis 0, whose size is 4"),
        (lambda t: t[:, 6], "index 6 of axis 1, whose size is 6"),
        (lambda t: t[::2], "partition step 2"),
        (lambda t: t[0, 0, 0], "3 indices for 2 axes"),
        (lambda t: t.reshape((4, 7)), "24 elements do not fit"),
        (lambda t: t.broadcast(1, 3), "only size 1 broadcasts"),
        (lambda t: t.ap([[12, 2], [1, 6]]), "only consecutive partitions"),
        (lambda t: t.ap([[6, 4], [1, 7]]), "the pattern reaches element 24, the storage has 24"),
        (lambda t: t["x"], "index 'x'"),
    ],
)
def test_a_view_outside_the_tensor_is_refused(change, problem):
    with pytest.raises(nki.NkiValidationError, match=problem):
        in_kernel(lambda: change(nl.ndarray((4, 6), nl.float32)))


def test_a_pattern_of_another_dtype_counts_its_elements():
    x = normal(4, 6)
    result = tile_of(lambda t: t.ap([[12, 4], [2, 6]], offset=1, dtype=nl.uint16), x)
    np.testing.assert_array_equal(result, x.view(np.uint16)[:, 1::2])


def test_a_pattern_does_not_compose_with_the_view_it_is_called_on():
    x = normal(4, 6)
    result = tile_of(lambda t: t[:, 2:4].ap([[6, 4], [1, 3]]), x)
    np.testing.assert_array_equal(result, x[:, 2:5])


def test_an_explicit_offset_on_a_view_is_reported_as_ambiguous():
    with pytest.warns(nki.NkiWarning, match="the documents disagree"):
        in_kernel(lambda: nl.ndarray((4, 6), nl.float32)[:, 2:4].ap([[6, 4], [1, 3]], offset=1))


def test_description_of_a_tensor():
    def body():
        t = nl.ndarray((4, 6), nl.bfloat16, name="weights")
        v = t[1:3, ::2]
        assert (v.shape, v.strides, v.offset, v.ndim, v.size) == ((2, 3), (6, 2), 6, 2, 6)
        assert v.get_pattern() == [[6, 2], [2, 3]]
        assert (v.is_contiguous(), t.is_contiguous(), t.is_indirect()) == (False, True, False)
        assert v.name == "weights"
        assert v.dtype == "bfloat16"
        assert repr(v) == "<NkiTensor 'weights' [2, 3] bfloat16 sbuf>"

    in_kernel(body)


def test_columns_by_a_snake_of_indices(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    x = normal(32, 40)
    index = np.random.default_rng(0).integers(0, 40, (32, 2)).astype(np.uint16)

    def body(a, i):
        return nl.copy(a.indirect(i, 20))

    wanted = np.empty((32, 20), np.float32)
    for group in (0, 16):
        columns = index[group : group + 16].T.reshape(-1)[:20]
        wanted[group : group + 16] = x[group : group + 16][:, columns]
    np.testing.assert_array_equal(tile_of(body, x, index), wanted)


def test_values_cannot_be_read_while_the_kernel_is_built():
    with pytest.raises(nki.NkiValidationError, match="do not exist when the kernel is built"):
        in_kernel(lambda: np.asarray(nl.zeros((2, 2), nl.float32)))
