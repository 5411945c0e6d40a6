"""Several processes that train one model: each reads rows of its own, all change weights alike.

Started by `torchrun` or `accelerate launch`, which tell each process its rank and the number of
all; the exchange is `torch.distributed`'s (NCCL on GPUs, else gloo). Gradients are averaged here
rather than by `DistributedDataParallel`, which knows neither sparse gradients on every backend nor
gradients that are written by hand.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

PATIENCE = timedelta(hours=12)
"""How long processes wait for one that prepares the corpus or measures perplexity."""


class Processes:
    """The processes of a run, seen from one of them; a single one by default.

    Attributes:
        rank: Number of this process, from 0.
        n: How many there are.
    """

    def __init__(self, rank: int = 0, n: int = 1) -> None:
        self.rank, self.n = rank, n

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and speaks."""
        return self.rank == 0

    def rows(self, n_rows: int) -> slice:
        """The rows of this process, where each has `n_rows`."""
        return slice(self.rank * n_rows, (self.rank + 1) * n_rows)

    def wait(self) -> None:
        """Wait until all are here."""
        if self.n > 1:
            dist.barrier()

    def from_first(self, values: Sequence[float]) -> list[float]:
        """The numbers that the first process has."""
        if self.n == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=_device())
        dist.broadcast(tensor, 0)
        return tensor.tolist()

    def any(self, flag: bool) -> bool:
        """Whether a flag is set in one of the processes."""
        return bool(self.sum(torch.tensor(float(flag))) > 0)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, of tensors of one shape."""
        if self.n > 1:
            moved = tensor.to(_device())
            dist.all_reduce(moved)
            tensor = moved.to(tensor.device)
        return tensor

    def gathered(self, tensor: Tensor, dim: int = 0) -> Tensor:
        """What the processes have, one after the other along an axis; shapes may differ there."""
        if self.n == 1:
            return tensor
        own = tensor.to(_device()).movedim(dim, 0).contiguous()
        sizes = torch.zeros(self.n, dtype=torch.int64, device=own.device)
        sizes[self.rank] = len(own)
        dist.all_reduce(sizes)
        longest = own.new_zeros(int(sizes.max()), *own.shape[1:])
        longest[: len(own)] = own
        parts = [torch.empty_like(longest) for _ in range(self.n)]
        dist.all_gather(parts, longest)
        joined = torch.cat([part[:size] for part, size in zip(parts, sizes.tolist(), strict=True)])
        return joined.movedim(0, dim).to(tensor.device)

    def same_as_first(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give every process the numbers of the first."""
        if self.n > 1:
            for parameter in parameters:
                dist.broadcast(parameter.data, 0)

    def average_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Put the mean over processes in the place of every gradient.

        Sparse gradients must be of the same rows everywhere; where a process has no gradient, it
        counts as zero.
        """
        if self.n == 1:
            return
        values = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            values.append(parameter.grad._values() if parameter.grad.is_sparse else parameter.grad)
        together = torch.cat([value.flatten() for value in values])
        dist.all_reduce(together)
        together /= self.n
        for value, mean in zip(values, together.split([v.numel() for v in values]), strict=True):
            value.copy_(mean.view_as(value))


@contextmanager
def joined(device: torch.device) -> Iterator[tuple[Processes, torch.device]]:
    """Join the processes that `torchrun` started, if it did; each on a device of its own.

    Raises:
        ValueError: If there are more processes on this computer than GPUs to train on.
    """
    n = int(os.environ.get("WORLD_SIZE", "1"))
    if n == 1:
        yield Processes(), device
        return
    if device.type == "cuda":
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local >= torch.cuda.device_count():
            raise ValueError(
                f"process {local} has no GPU: there are {torch.cuda.device_count()} here; start "
                "as many processes as GPUs, or set training.device to cpu"
            )
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Processes(dist.get_rank(), n), device
    finally:
        dist.destroy_process_group()


def _device() -> torch.device:
    """Where tensors have to be to be exchanged."""
    if dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
