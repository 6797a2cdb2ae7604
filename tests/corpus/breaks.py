"""Functions that break a graph. The line that must be named ends in `# breaks: <id of torch's catalogue>`.

Each takes one float32 tensor of 4 elements.
"""

from __future__ import annotations

import copy
import logging
import time
import warnings

import numpy as np
import torch

Tensor = torch.Tensor
logger = logging.getLogger("corpus")


def prints(x: Tensor) -> Tensor:
    y = x + 1
    print("seen", file=None)  # breaks: gb0059
    return y * 2


def logs(x: Tensor) -> Tensor:
    y = x + 1
    logger.info("seen")  # breaks: gb0291
    return y * 2


def warns(x: Tensor) -> Tensor:
    y = x + 1
    warnings.warn("seen", stacklevel=1)  # breaks: gb0007
    return y * 2


def takes_item(x: Tensor) -> Tensor:
    k = x.sum().item()  # breaks: gb0124
    return x * k


def takes_float(x: Tensor) -> Tensor:
    k = float(x.max())  # breaks: gb0124
    return x / k


def takes_list(x: Tensor) -> Tensor:
    values = x.tolist()  # breaks: gb0109
    return x + values[0]


def branches_on_a_tensor(x: Tensor) -> Tensor:
    if x.sum() > 0:  # breaks: gb0170
        return x + 1
    return x - 1


def loops_on_a_tensor(x: Tensor) -> Tensor:
    while x.sum() < 10:  # breaks: gb0170
        x = x + 1
    return x


class Sign:
    def __init__(self, value: Tensor) -> None:
        self.value = value

    def __bool__(self) -> bool:
        return bool(self.value.sum() > 0)  # breaks: gb0124


def branches_on_an_object(x: Tensor) -> Tensor:
    sign = Sign(x)
    if sign:
        return x + 1
    return x - 1


def asserts_on_a_tensor(x: Tensor) -> Tensor:
    y = x + 1
    assert y.sum() > 0, f"not positive {y}"  # breaks: gb0170
    return y


def finds_nonzero(x: Tensor) -> Tensor:
    return torch.nonzero(x) + 1  # breaks: gb0036


def indexes_with_a_mask(x: Tensor) -> Tensor:
    return x[x > 0] + 1  # breaks: gb0036


def finds_unique(x: Tensor) -> Tensor:
    return torch.unique(x) * 2  # breaks: gb0036


def compares_for_equality(x: Tensor) -> Tensor:
    same = torch.equal(x, x + 1)  # breaks: gb0033
    return x + int(same)


def asks_for_a_break(x: Tensor) -> Tensor:
    y = x + 1
    torch._dynamo.graph_break()  # breaks: gb0025
    return y * 2


def asks_to_skip(x: Tensor) -> Tensor:
    y = x + 1
    torch._dynamo.skip_frame("on purpose")  # breaks: gb4297
    return y * 2


@torch.compiler.disable
def not_compiled(x: Tensor) -> Tensor:
    return x * 3


def calls_a_disabled_function(x: Tensor) -> Tensor:
    y = x + 1
    y = not_compiled(y)  # breaks: gb0098
    return y * 2


def sleeps(x: Tensor) -> Tensor:
    y = x + 1
    time.sleep(0)  # breaks: gb0007
    return y * 2


def runs_backward(x: Tensor) -> Tensor:
    loss = (x * 2).sum()
    loss.backward()  # breaks: gb0123
    return x


def deep_copies(x: Tensor) -> Tensor:
    other = copy.deepcopy(Sign(x))  # breaks: gb4198
    return x + other.value


def random_in_numpy(x: Tensor) -> Tensor:
    noise = np.random.default_rng(0).standard_normal(4)  # breaks: gb0294 gb0156
    return x + torch.as_tensor(noise, dtype=torch.float32)


def opens_a_file(x: Tensor) -> Tensor:
    y = x + 1
    with open("/dev/null") as file:  # breaks: gb0059 gb0142
        file.read()
    return y


def prints_in_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x + 1
        print("inside", file=None)  # breaks: gb0059
    return y


def raises(x: Tensor) -> Tensor:
    y = x + 1
    raise KeyError(str(y.shape))  # breaks: gb0088


def prints_in_a_loop(x: Tensor) -> Tensor:
    for _ in range(3):
        x = x + 1
        print("again", file=None)  # breaks: gb0059
    return x


def defines_a_class(x: Tensor) -> Tensor:
    class Local:  # breaks: gb8977
        factor = 2

    return x * Local.factor


def asks_the_garbage_collector(x: Tensor) -> Tensor:
    import gc

    y = x + 1
    gc.collect()  # breaks: gb0007
    return y * 2


def draws_with_random_(x: Tensor) -> Tensor:
    y = x + 1
    y.random_(0, 5)  # breaks: gb0107
    return y


def uniform_with_from(x: Tensor) -> Tensor:
    y = x + 1
    y.uniform_(**{"from": 0.0, "to": 1.0})  # breaks: gb0110
    return y


def retains_gradients(x: Tensor) -> Tensor:
    y = x * 2
    y.retain_grad()  # breaks: gb0108
    return y


def slices_with_a_tensor(x: Tensor) -> Tensor:
    return x[slice(None, x.argmax())]  # breaks: gb0124


def views_in_place(x: Tensor) -> Tensor:
    x.unsqueeze_(0)  # breaks: gb0148
    return x + 1


def makes_sparse(x: Tensor) -> Tensor:
    y = x.to_sparse()  # breaks: gb0277
    return y.to_dense() + 1  # breaks: gb0015


def reads_grad_fn(x: Tensor) -> Tensor:
    y = x * 2
    name = y.grad_fn.name()  # breaks: gb0104
    return y + len(name)


def asks_for_inference_mode(x: Tensor) -> Tensor:
    if torch.is_inference_mode_enabled():  # breaks: gb0046
        return x + 2
    return x + 1


def asks_a_tensor_for_inference(x: Tensor) -> Tensor:
    if x.is_inference():  # breaks: gb0045
        return x + 2
    return x + 1


def has_an_identity(x: Tensor) -> Tensor:
    return x + id(Sign(x)) % 2  # breaks: gb0088


def sets_a_seed(x: Tensor) -> Tensor:
    torch.manual_seed(0)  # breaks: gb0007
    return x + 1


def reads_the_generator(x: Tensor) -> Tensor:
    state = torch.get_rng_state()  # breaks: gb0007
    return x + state.numel()


def reads_an_address(x: Tensor) -> Tensor:
    return x + x.data_ptr() % 1  # breaks: gb0088


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = torch.nn.LSTM(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.rnn(x.reshape(1, 4))  # breaks: gb0014
        return y


class Inner(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        print("inner", file=None)  # breaks: gb0059
        return y * 2


class Nested(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.Sequential(torch.nn.Sequential(torch.nn.ReLU(), Inner()), torch.nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


def opens_and_closes(x: Tensor) -> Tensor:
    y = x + 1
    open("/dev/null").close()  # breaks: gb0059 gb0156
    return y * 2
