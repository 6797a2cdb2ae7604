"""`nki.typing`: annotations of kernel parameters, such as `tensor[128, 512]`."""

from __future__ import annotations

from typing import Any


class tensor:  # noqa: N801 - the public name
    """A tensor of a shape; only an annotation, not checked."""

    def __class_getitem__(cls, shape: Any) -> type[tensor]:
        return cls
