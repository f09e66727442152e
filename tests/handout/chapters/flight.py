"""The first flight: predictions computed anew, and measurements from handout/flights.

`python -m assignment fly` wrote the records, with the reference's modules on two cores.
"""

from flight import parts, prediction
from flight.flight_page import smooth
from flight.flying import Settings
from flight.model import SIZES
from flight.race import BUDGET
from flight.training_text import MEGABYTES
from grader.solutions.reference import resource_accounting as ra
from handout.site import wren
from handout.site.pictures.flights import SMOOTH, record
from tests.handout.page_figures import COURSE, Figures, n, reference_as_assignment

EGGS = ["egg", "egg_autocast", "egg_segments", "egg_no_momentum", "egg_no_warmup", "egg_batch"]


def row(name, what):
    return next(line for line in record(name)["rows"] if line["what"].startswith(what))


class Chapter(Figures):
    def beginning(self) -> None:
        self.gives(problems=len(COURSE.problems), megabytes=MEGABYTES)
        for name in ("chick", "egg"):
            size = SIZES[name]
            self.gives(**{f"{name}_layers": size.num_layers, f"{name}_width": size.d_model})
        self.gives(chick_context=SIZES["chick"].context_length)
        self.gives(vocabulary=SIZES["chick"].vocab_size, steps=SIZES["chick"].steps)
        self.gives(words=SIZES["hatchling"].steps, budget=BUDGET)
        # FLOP/s in float32 that the flight measured: the step's prediction is compute-bound.
        self.peak = row("chick", "FLOPs")["predicted"] / row("chick", "seconds")["predicted"]
        self.gives(peak=self.peak / 1e9)

    def predicted(self) -> None:
        """The committed predictions are those of today's formulas."""
        size = SIZES["chick"]
        with reference_as_assignment():
            used = parts.load(list(parts.OF_PROBLEM))
            flops = prediction.step_flops(used, size, 0)
        assert row("chick", "FLOPs")["predicted"] == flops == row("chick", "FLOPs")["measured"]
        switches = {"autocast": False, "fused": False, "segments": 0}
        kept = prediction.activation_bytes(size, size.batch, **switches)
        found = row("chick", "bytes kept")
        assert found["predicted"] == found["measured"] == kept
        assert row("chick", "parameters")["predicted"] == ra.transformer_parameters(size)

    def table(self) -> None:
        units = {"parameters": 1, "FLOPs": 1, "bytes of weights": 1e6, "bytes kept": 1e6}
        for what, unit in {**units, "first loss": 1, "seconds": 1}.items():
            predicted, measured = (row("chick", what)[key] for key in ("predicted", "measured"))
            self.gives(chick_row=(predicted / unit, measured / unit, measured / predicted))
        count, time = row("chick", "parameters"), row("chick", "seconds")
        # Positions and gains of a Wren of the same kind.
        rest = wren.WREN.context_length * wren.WREN.d_model
        rest += (2 * wren.WREN.num_layers + 1) * wren.WREN.d_model
        self.gives(parameter_gap=100 * (count["measured"] / count["predicted"] - 1))
        self.gives(wren_gap=100 * rest / wren.PARAMETERS)
        self.gives(time_ratio=time["measured"] / time["predicted"])
        rate = row("chick", "FLOPs")["measured"] / time["measured"]
        self.gives(chick_mfu=100 * rate / self.peak)
        self.gives(chick_loss=row("chick", "last loss")["measured"])
        self.gives(entropy=record("chick")["entropy"])

    def others(self) -> None:
        for name in EGGS:
            seconds, kept = row(name, "seconds")["measured"], row(name, "bytes kept")["measured"]
            last = row(name, "last loss")["measured"]
            self.gives(egg_row=(seconds, kept / 1e6, last))
        assert record("egg")["losses"] == record("egg_segments")["losses"], "the same numbers"
        usual = Settings("egg", steps=300, batch=16, micro_batch=16)
        assert record("egg")["name"] == usual.name
        segments, batch = (record(name)["name"].split() for name in ("egg_segments", "egg_batch"))
        self.gives(switch_segments=f"`--checkpointing {n(segments[1])}`")
        self.gives(switch_batch=f"`--batch {n(batch[2])}`")
        for name in ("egg", "wrong_adamw", "wrong_targets"):
            self.gives(**{f"{name}_loss": n(smooth(record(name)["losses"], SMOOTH)[-1], ".2f")})
