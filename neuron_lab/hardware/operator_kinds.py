"""Which kind of work each operator is: the names only, grouped as the cost model treats them.

Names are without namespace, overload, trailing underscore and `_foreach_` prefix (`base_name`). What is in no
group is costed as one vector pass over its tensors, and marked assumed.
"""

from __future__ import annotations

from functools import cache

Passes = tuple[int, int]
"""Element operations per element: on the vector engine, on the scalar engine."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _passes(text: str, *, vector: int, scalar: int) -> dict[str, Passes]:
    return dict.fromkeys(text.split(), (vector, scalar))


NO_WORK = _names("""
    view _unsafe_view reshape _reshape_alias view_as t transpose permute movedim swapaxes swapdims
    numpy_T mT mH adjoint expand expand_as select slice narrow squeeze unsqueeze flatten unflatten
    as_strided alias detach diagonal split split_with_sizes unsafe_split unsafe_split_with_sizes chunk
    tensor_split unbind unfold real imag view_as_real view_as_complex _conj conj _neg_view resolve_conj
    resolve_neg lift lift_fresh set resize resize_as empty empty_strided empty_like new_empty
    new_empty_strided empty_permuted empty_quantized _local_scalar_dense item is_same_size record_stream
    requires_grad _assert_async _assert_scalar getitem sym_size sym_stride sym_numel wait_tensor
    _version _fw_primal
    """)

MATMUL = _names("mm _int_mm _scaled_mm bmm matmul mv dot vdot inner")
MATMUL_WITH_BIAS = _names("addmm _addmm_activation baddbmm addbmm addmv sspaddmm")
LINEAR = frozenset(["linear"])
LINEAR_BACKWARD = frozenset(["linear_backward"])
GROUPED_MATMUL = _names("_grouped_mm _scaled_grouped_mm")
CONVOLUTION = _names("""
    convolution _convolution convolution_overrideable conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d _slow_conv2d_forward slow_conv3d mkldnn_convolution
    _conv_depthwise2d
    """)
CONVOLUTION_BACKWARD = _names("""
    convolution_backward convolution_backward_overrideable _slow_conv2d_backward
    """)

COPY = _names("""
    clone contiguous copy _copy_from _copy_from_and_resize _to_copy to cat concat stack hstack vstack
    repeat repeat_interleave tile roll flip rot90 constant_pad_nd pad reflection_pad1d reflection_pad2d
    replication_pad1d replication_pad2d tril triu pixel_shuffle pixel_unshuffle im2col col2im slice_backward
    select_backward unfold_backward
    """)

FILL = _names("""
    zero zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full fill fill_diagonal
    arange linspace logspace eye scalar_tensor tril_indices triu_indices
    """)

RANDOM = _names("""
    normal uniform bernoulli exponential geometric log_normal cauchy random rand randn randint rand_like
    randn_like randint_like randperm multinomial dropout native_dropout
    """)

GATHER = _names("""
    embedding index_select gather index _unsafe_index take take_along_dim masked_select
    """)

GATHER_ELEMENTS = _names("gather take take_along_dim masked_select")

SCATTER = _names("""
    index_put _index_put_impl _unsafe_index_put index_copy index_add index_fill scatter scatter_add
    scatter_reduce slice_scatter select_scatter diagonal_scatter as_strided_scatter masked_scatter put
    embedding_dense_backward embedding_backward index_reduce index_select_backward
    """)

REDUCTION: dict[str, Passes] = {
    **_passes(
        """
        sum nansum mean amax amin max min aminmax prod all any argmax argmin count_nonzero cumsum
        cumprod cummax cummin trace bincount histc sum_to_size
        """,
        vector=1,
        scalar=0,
    ),
    **_passes("norm linalg_vector_norm dist", vector=2, scalar=0),
    **_passes("var std var_mean std_mean var_correction", vector=2, scalar=0),
    **_passes("logsumexp logcumsumexp", vector=2, scalar=1),
    **_passes("softmax _softmax _safe_softmax log_softmax _log_softmax", vector=2, scalar=1),
    **_passes("_softmax_backward_data _log_softmax_backward_data", vector=3, scalar=0),
    **_passes(
        """
        layer_norm native_layer_norm rms_norm _fused_rms_norm group_norm native_group_norm batch_norm
        native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional
        _native_batch_norm_legit_no_training cudnn_batch_norm _batch_norm_with_update
        """,
        vector=3,
        scalar=0,
    ),
    **_passes(
        """
        native_layer_norm_backward _fused_rms_norm_backward native_group_norm_backward
        native_batch_norm_backward batch_norm_backward
        """,
        vector=6,
        scalar=0,
    ),
    **_passes(
        """
        nll_loss nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward
        """,
        vector=1,
        scalar=0,
    ),
    **_passes("cross_entropy cross_entropy_loss", vector=3, scalar=1),
    **_passes("mse_loss l1_loss smooth_l1_loss huber_loss", vector=2, scalar=0),
    **_passes("binary_cross_entropy binary_cross_entropy_with_logits", vector=3, scalar=2),
    **_passes(
        """
        max_pool2d_with_indices max_pool2d max_pool1d max_pool3d_with_indices avg_pool1d avg_pool2d
        avg_pool3d _adaptive_avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d
        """,
        vector=2,
        scalar=0,
    ),
}

# As above, where the number of passes is our own estimate.
ASSUMED_REDUCTION: dict[str, Passes] = {
    "topk": (8, 0),
    "kthvalue": (8, 0),
    "median": (8, 0),
    "sort": (16, 0),
    "argsort": (16, 0),
    "unique": (16, 0),
    "_unique2": (16, 0),
    "nonzero": (2, 0),
    "nonzero_static": (2, 0),
    "isin": (4, 0),
}

ELEMENTWISE: dict[str, Passes] = {
    **_passes(
        """
        add sub rsub mul div divide true_divide floor_divide neg abs where maximum minimum fmax fmin
        clamp clamp_min clamp_max eq ne lt le gt ge isclose logical_and logical_or logical_not
        logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor bitwise_left_shift
        bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__
        __ilshift__ __irshift__ masked_fill relu relu6 threshold threshold_backward reciprocal sign
        signbit sgn floor ceil round trunc frac fmod remainder square isnan isinf isfinite isposinf
        isneginf nan_to_num hardtanh leaky_relu heaviside copysign hardtanh_backward leaky_relu_backward
        native_dropout_backward polygamma nextafter positive
        """,
        vector=1,
        scalar=0,
    ),
    **_passes("addcmul addcdiv lerp hardswish hardsigmoid prelu _prelu_kernel", vector=2, scalar=0),
    **_passes(
        """
        exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh
        acosh atanh sigmoid silu gelu erf erfc erfinv softplus elu celu selu mish pow log_sigmoid
        log_sigmoid_forward logit sinc lgamma digamma special_i0 i0
        """,
        vector=0,
        scalar=1,
    ),
    **_passes("sigmoid_backward tanh_backward", vector=2, scalar=0),
    **_passes(
        """
        silu_backward gelu_backward softplus_backward elu_backward mish_backward log_sigmoid_backward
        atan2 xlogy logaddexp logaddexp2 hypot glu glu_backward hardswish_backward hardsigmoid_backward
        mse_loss_backward smooth_l1_loss_backward huber_loss_backward
        """,
        vector=2,
        scalar=1,
    ),
}

OPTIMIZER: dict[str, Passes] = {
    "_fused_adam": (12, 1),
    "_fused_adamw": (12, 1),
    "_fused_sgd": (4, 0),
    "_fused_adagrad": (6, 1),
}


@cache
def base_name(op: str) -> str:
    """`aten::add_.Tensor` → `add`. Another namespace's name stays whole and so matches no group."""
    namespace, _, name = op.rpartition("::")
    if namespace not in ("", "aten", "prims"):
        return op
    name = name.partition(".")[0]
    if not name.endswith("__"):
        name = name.removesuffix("_")
    return name.removeprefix("_foreach_")


def is_copy(base: str) -> bool:
    """`view_copy`, `slice_copy` and their like are copies too."""
    return base in COPY or (base.endswith("_copy") and base not in SCATTER)


def is_attention(base: str) -> bool:
    return base.startswith("_scaled_dot_product") or base in (
        "scaled_dot_product_attention",
        "_flash_attention_forward",
    )


def is_in_place(op: str) -> bool:
    """`aten::add_.Tensor` writes its first argument."""
    name = op.rpartition("::")[2].partition(".")[0]
    return name.endswith("_") and not name.endswith("__")
