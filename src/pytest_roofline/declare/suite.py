"""The suite: what a project declares. One Python file binds ``SUITE``; every test, table and report takes its lists
from it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DeclarationError, RefusedError, UnknownNameError
from ..hardware.gpus import Gpu, gpu_named
from .array import require_tuple
from .operator import Operator
from .shape import Shape, called
from .tolerance import refuse_loose
from .variant import Prediction, Variant

Rule = Callable[[Shape, Gpu], tuple[str, str]]  # the name of a variant and why
Shapes = tuple[Shape, ...]


@dataclass(frozen=True)
class Best:
    """The variant to use for a shape on a GPU, why, and what tells its build from others."""

    variant: Variant
    why: str
    shape: Shape
    gpu: Gpu

    @property
    def build_key(self) -> str:
        """Equal for shapes that run the same image: a digest of sources, macros and architecture."""
        launches = self.variant.configured(self.shape, self.gpu)
        made = sorted({(self.variant.source_of(one), one.defines) for one in launches})
        return hashlib.sha256(json.dumps([made, self.gpu.arch]).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Suite:
    """All variants; the first of an operator is its baseline.

    ``workloads`` are shapes that are measured together, by name: a tuple of shapes, of every operator that has their
    extents, or a mapping from an operator's name to its own. ``rules`` say, by operator, which variant to use for a
    shape on a GPU and why. ``exclude`` are patterns (``Path.match``) of .cu files that are no part of it.
    Errors: :class:`DeclarationError`.
    """

    variants: tuple[Variant, ...]
    workloads: Mapping[str, Shapes | Mapping[str, Shapes]] = field(default_factory=dict)
    rules: Mapping[str, Rule] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    root: Path = field(default=Path(), compare=False)
    file: Path = field(default=Path(), compare=False)  # that declares it; loading sets both

    def __post_init__(self) -> None:
        require_tuple("the suite: variants", self.variants)
        require_tuple("the suite: exclude", self.exclude)
        if not self.variants:
            raise DeclarationError("the suite has no variants")
        if loose := [one for one in self.variants if not isinstance(one, Variant)]:
            raise DeclarationError(f"the suite has {loose[0]!r} among its variants; each is a Variant")
        names = [variant.name for variant in self.variants]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise DeclarationError(f"variant names must be unique, doubled: {', '.join(doubled)}")
        for variant in self.variants:
            if self.operators[variant.operator.name] is not variant.operator:
                raise DeclarationError(
                    f"variant {variant.name!r}: operator name {variant.operator.name!r} stands for two operators"
                )
        object.__setattr__(self, "workloads", {n: self._by_operator(n, w) for n, w in self.workloads.items()})
        self._check_rules()
        for operator in self.operators.values():
            refuse_loose(operator)
        for variant in self.variants:
            for prediction in variant.predictions:
                self._check_prediction(variant, prediction)

    def _by_operator(self, name: str, given: object) -> dict[str, Shapes]:
        what = f"workload {name!r}"
        if isinstance(given, Mapping):
            if unknown := sorted({*given} - {*self.operators}):
                raise DeclarationError(f"{what} names operators that no variant has: {', '.join(unknown)}")
            found = {}
            for operator, shapes in given.items():
                require_tuple(f"{what}, {operator}", shapes)
                found[operator] = tuple(self.operators[operator].require(shape) for shape in shapes)
            return found
        require_tuple(what, given)
        assert isinstance(given, tuple)
        if loose := [one for one in given if not isinstance(one, Shape)]:
            raise DeclarationError(f"{what} has {loose[0]!r} for a shape; write Shape(M=8, N=1000)")
        fitting = {
            operator.name: tuple(operator.require(s) for s in given if {*s.extents} == {*operator.extents})
            for operator in self.operators.values()
        }
        if strays := [s for s in given if not any({*s.extents} == {*o.extents} for o in self.operators.values())]:
            raise DeclarationError(f"{what} has {strays[0]!r}, whose extents no operator has")
        return {operator: shapes for operator, shapes in fitting.items() if shapes}

    def _check_rules(self) -> None:
        if unknown := sorted({*self.rules} - {*self.operators}):
            raise DeclarationError(f"rules are for operators that no variant has: {', '.join(unknown)}")
        if uncalled := sorted(name for name, rule in self.rules.items() if not callable(rule)):
            raise DeclarationError(f"rules are functions of a shape and a GPU; not so: {', '.join(uncalled)}")

    def _check_prediction(self, variant: Variant, prediction: Prediction) -> None:
        what = f"variant {variant.name!r} predicts"
        if prediction.workload and prediction.workload not in self.workloads:
            raise DeclarationError(
                f"{what} for workload {prediction.workload!r}; there are {', '.join(self.workloads) or 'none'}"
            )
        family = [one.name for one in self.family(variant.operator)]
        if prediction.quantity == "speedup" and prediction.than not in family:
            raise DeclarationError(
                f"{what} against {prediction.than!r}; variants of {variant.operator.name} are {', '.join(family)}"
            )

    @property
    def operators(self) -> dict[str, Operator]:
        """By name, in the order of their first variants."""
        found: dict[str, Operator] = {}
        for variant in self.variants:
            found.setdefault(variant.operator.name, variant.operator)
        return found

    def variant(self, name: str) -> Variant:
        """The variant of that name; :class:`UnknownNameError` with those there are."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise UnknownNameError(
            f"there is no variant {name!r}; the suite has {', '.join(one.name for one in self.variants)}"
        )

    def operator(self, name: str) -> Operator:
        """The operator of that name; :class:`UnknownNameError` with those there are."""
        if name not in self.operators:
            raise UnknownNameError(f"there is no operator {name!r}; there are {', '.join(self.operators)}")
        return self.operators[name]

    def family(self, operator: Operator) -> tuple[Variant, ...]:
        """The variants of one operator, its baseline first."""
        return tuple(variant for variant in self.variants if variant.operator.name == operator.name)

    def baseline(self, variant: Variant) -> Variant:
        return self.family(variant.operator)[0]

    def workload(self, name: str, operator: Operator) -> Shapes:
        """The shapes of one workload for ``operator``; of the first workload where ``name`` is empty."""
        name = name or next(iter(self.workloads), "")
        shapes = self.workloads.get(name, {})
        assert isinstance(shapes, Mapping)
        return shapes.get(operator.name, ())

    def shapes(self, operator: Operator) -> Shapes:
        """The shapes of all workloads for ``operator``, each once."""
        return tuple(dict.fromkeys(shape for name in self.workloads for shape in self.workload(name, operator)))

    def default(self, operator: Operator) -> Shape:
        """The operator's own default shape, or the first of the workloads, or extents of 64."""
        if operator.default is not None:
            return operator.require(operator.default)
        return next(iter(self.shapes(operator)), Shape(dtype="float32", **dict.fromkeys(operator.extents, 64)))

    def best(self, operator: str, shape: Shape, gpu: str | Gpu = "h200") -> Best:
        """The variant that the operator's rule names for ``shape`` on a GPU of the table, or on one described.

        Errors: :class:`UnknownNameError` for an operator without a rule, :class:`RefusedError` for a type that none of
        its variants takes; whether the variant runs there is told by planning it
        (:class:`pytest_roofline.run.plan.Plan`).
        """
        rule = self.rules.get(self.operator(operator).name)
        if rule is None:
            raise UnknownNameError(
                f"no rule names the best variant of {operator!r}; rules are for {', '.join(self.rules) or 'none'}"
            )
        on, shape = gpu_named(gpu) if isinstance(gpu, str) else gpu, self.operators[operator].require(shape)
        family = self.family(self.operators[operator])
        if not any(shape.dtype in one.dtypes for one in family):
            taken = dict.fromkeys(dtype for one in family for dtype in one.dtypes)
            raise RefusedError(f"no variant of {operator} runs {shape}: they are written for {', '.join(taken)}")
        made = called(f"the rule of {operator}", rule, shape, on)
        if not isinstance(made, tuple) or [*map(type, made)] != [str, str]:
            raise DeclarationError(
                f"the rule of {operator} gives {made!r} for {shape}; it gives a variant's name and why"
            )
        name, why = made
        return Best(self.variant(name), why, shape, on)

    def able(self, operator: Operator, shape: Shape) -> tuple[Variant, ...]:
        """The variants of ``operator`` whose limits allow ``shape``."""
        return tuple(one for one in self.family(operator) if not one.broken_limit(shape))

    def at(self, file: Path) -> Suite:
        """The suite as declared in ``file``, beside which its sources lie."""
        variants = tuple(dataclasses.replace(variant, root=file.parent) for variant in self.variants)
        return dataclasses.replace(self, variants=variants, root=file.parent, file=file)

    def __iter__(self) -> Iterator[Variant]:
        return iter(self.variants)
