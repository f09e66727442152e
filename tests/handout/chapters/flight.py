"""The first flight: predictions computed anew, and measurements from handout/flights.

`python -m assignment fly` wrote the records, with the reference's modules on two cores.
"""

import torch

from flight import parts, prediction
from flight.flying import Settings
from flight.model import SIZES
from flight.page import smooth
from flight.race import BUDGET
from flight.training_text import MEGABYTES
from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import resource_accounting as ra
from handout.site import wren
from handout.site.pictures.flights import SMOOTH, record
from tests.handout.page_figures import COURSE, Figures, n, power, reference_as_assignment

EGGS = ["egg", "egg_autocast", "egg_segments", "egg_no_momentum", "egg_no_warmup", "egg_batch"]


def row(name, what):
    """A line of a record's table."""
    return next(line for line in record(name)["rows"] if line["what"].startswith(what))


class Chapter(Figures):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("flight.md")
        self.gives(problems=len(COURSE.problems), megabytes=MEGABYTES)
        for name in ("chick", "egg"):
            size = SIZES[name]
            self.gives(
                **{f"{name}_layers": size.num_layers, f"{name}_width": size.d_model},
            )
        self.gives(
            chick_context=SIZES["chick"].context_length,
            vocabulary=SIZES["chick"].vocab_size,
            steps=SIZES["chick"].steps,
            words=n(SIZES["hatchling"].steps, ","),
            budget=power(10, len(str(BUDGET)) - 1),
            peak=n(self.peak() / 1e9, ".0f"),
        )
        self.predicted()
        self.table()
        self.others()

    @staticmethod
    def peak() -> float:
        """FLOP/s in float32 that the flight measured: the step's prediction is compute-bound."""
        return row("chick", "FLOPs")["predicted"] / row("chick", "seconds")["predicted"]

    def predicted(self) -> None:
        """The committed predictions are those of today's formulas."""
        size = SIZES["chick"]
        with reference_as_assignment():
            used = parts.load(list(parts.OF_PROBLEM))
            flops = prediction.step_flops(used, size, 0)
        assert row("chick", "FLOPs")["predicted"] == flops == row("chick", "FLOPs")["measured"]
        kept = prediction.activation_bytes(
            size, size.batch, autocast=False, fused=False, segments=0
        )
        assert (
            row("chick", "bytes kept")["predicted"]
            == kept
            == row("chick", "bytes kept")["measured"]
        )
        assert row("chick", "parameters")["predicted"] == ra.transformer_parameters(size)

    def table(self) -> None:
        """Predicted and measured."""
        formats = [
            ("parameters", 1, ",.0f"),
            ("FLOPs", 1, ".3e"),
            ("bytes of weights", 1e6, ".1f"),
            ("bytes kept", 1e6, ".1f"),
            ("first loss", 1, ".3f"),
            ("seconds", 1, ".2f"),
        ]
        for what, unit, spec in formats:
            line = row("chick", what)
            both = [
                n(line[key] / unit, spec).replace("e+", "e") for key in ("predicted", "measured")
            ]
            self.gives(
                chick_row=f"{both[0]} | {both[1]} | "
                f"{n(line['measured'] / line['predicted'], '.3f')}"
            )
        count, time = row("chick", "parameters"), row("chick", "seconds")
        # Positions and gains of a Wren of the same kind.
        rest = wren.WREN.context_length * wren.WREN.d_model
        rest += (2 * wren.WREN.num_layers + 1) * wren.WREN.d_model
        self.gives(
            parameter_gap=n(100 * (count["measured"] / count["predicted"] - 1), ".1f"),
            wren_gap=n(100 * rest / wren.PARAMETERS, ".1f"),
            time_ratio=n(time["measured"] / time["predicted"], ".1f"),
            chick_mfu=n(
                100 * row("chick", "FLOPs")["measured"] / time["measured"] / self.peak(), ".0f"
            ),
            chick_loss=n(row("chick", "last loss")["measured"], ".2f"),
            entropy=n(record("chick")["entropy"], ".2f"),
        )

    def others(self) -> None:
        """The egg with switches and with wrong parts, and the real Wren."""
        for name in EGGS:
            seconds, kept = row(name, "seconds")["measured"], row(name, "bytes kept")["measured"]
            last = row(name, "last loss")["measured"]
            self.gives(egg_row=f"{n(seconds, '.3f')} | {n(kept / 1e6, '.1f')} | {n(last, '.3f')}")
        assert record("egg")["losses"] == record("egg_segments")["losses"], "the same numbers"
        usual = Settings("egg", steps=300, batch=16, micro_batch=16)
        assert record("egg")["name"] == usual.name
        segments, batch = (
            record(name)["name"].split()[i] for name, i in [("egg_segments", 1), ("egg_batch", 2)]
        )
        self.gives(
            switch_segments=f"`--checkpointing {n(segments)}`", switch_batch=f"`--batch {n(batch)}`"
        )
        for name in ("egg", "wrong_adamw", "wrong_targets"):
            self.gives(**{f"{name}_loss": n(smooth(record(name)["losses"], SMOOTH)[-1], ".2f")})
        tokens = wren.MICRO_BATCH * wren.WREN.context_length
        seconds = fc.training_flops(wren.PARAMETERS, tokens) / (
            wren.MFU * ra.H100_SXM.peak_flops[torch.bfloat16]
        )
        self.gives(wren_micro_ms=n(1e3 * seconds, ".0f"))
