"""The dated list of operators the device gives to the host."""

from neuron_lab.hardware.op_support import FALLBACK_REASON, Support, fallback_ops, falls_back, status, support


def test_argmax_falls_back() -> None:
    assert falls_back("aten::argmax")


def test_matrix_multiplication_does_not_fall_back() -> None:
    assert not falls_back("aten::mm")


def test_an_operator_that_is_not_listed_has_no_status_and_does_not_fall_back() -> None:
    assert (status("mine::thing"), falls_back("mine::thing")) == (None, False)


def test_the_list_holds_931_fallbacks() -> None:
    assert len(fallback_ops()) == 931


def test_an_operator_without_any_kernel_is_unsupported() -> None:
    assert support("aten::_cudnn_rnn") == Support("unsupported", "none")


def test_the_reason_is_dated() -> None:
    assert FALLBACK_REASON == "falls back per the April 2026 list"
