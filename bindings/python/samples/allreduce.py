# SPDX-License-Identifier: BSD-2-Clause
"""Sums arrays of numpy over processes: allreduce.py RANK HOST:PORT..."""

import sys

import numpy

import rdmamsg


def main(rank: int, addresses: list[str]) -> None:
    """Each member starts with its rank, and ends with the sum."""
    numbers = numpy.full(1000, rank + 1, dtype="float64")
    with rdmamsg.Context() as ctx, \
            ctx.team(addresses, rank, timeout=60) as team:
        team.allreduce(numbers, timeout=60)
        team.barrier(timeout=60)
    print(f"allreduce: the sum of {len(addresses)} members is {numbers[0]:g}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
