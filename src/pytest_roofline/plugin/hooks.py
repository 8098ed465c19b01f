"""Hooks, options, markers and fixtures. No logic: that is in the modules this one calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..bench.measured import Precision
from ..bench.modelled import label
from ..devices import CHOICES, DEFAULT_GPU
from ..errors import CompileError, DeviceMemoryError, NotCheckedError, RooflineError, SanitizerNotFoundError
from ..hardware.gpus import GPUS, gpu_named
from ..report import tables
from ..run.build import Build
from ..run.device import NOT_CHECKED
from ..run.run import check as check_build
from ..sanitize.compute_sanitizer import conclude
from ..sim.errors import UnsupportedError
from ..testing import cases
from . import comparison, environment, told
from .benchmarks import Benchmarks, labelled, named
from .failures import CompileErrors
from .parts import Parts, Settings, worker_number

if TYPE_CHECKING:
    from ..declare.suite import Suite
    from ..run.gpu.device import CudaDevice
    from ..sim.device import SimDevice

PARTS = pytest.StashKey[Parts]()
BENCHMARKS = pytest.StashKey[Benchmarks]()
COMPARISON = pytest.StashKey[comparison.Comparison]()
COMPILE_ERRORS = pytest.StashKey[CompileErrors]()
SIMULATED = ("roofline", "simulated")  # among the properties of a test's report


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("roofline", "CUDA kernels against the roofline")
    add = group.addoption
    add(
        "--roofline-device",
        choices=CHOICES,
        default=CHOICES[0],
        help="what kernels are checked on; auto: a GPU if there is one, else the simulator",
    )
    add(
        "--roofline-gpu",
        metavar="NAME",
        default=DEFAULT_GPU,
        help=f"the GPU that is simulated and modelled where there is none (%(default)s): {', '.join(GPUS)}",
    )
    add("--roofline-require-gpu", action="store_true", help="a missing GPU is an error, not a skip")
    add("--roofline-state", choices=("cold", "warm"), default="cold", help="L2 cache before each sample (%(default)s)")
    add(
        "--roofline-precision",
        type=comparison.percent,
        metavar="PERCENT",
        default="0.1%",
        help="aim for the median's standard error; rounds follow from it, within --benchmark-max-time (%(default)s)",
    )
    add(
        "--roofline-counters",
        action="store_true",
        help="run each benchmark once more under ncu and report DRAM bytes and L2 sectors as the GPU counts them",
    )
    add("--roofline-sanitizer", metavar="PATH", help="compute-sanitizer (else environment, PATH, toolkit, wheel)")
    add(
        "--roofline-gate",
        type=comparison.percent,
        nargs="?",
        const="5%",
        metavar="PERCENT",
        help="fail where a median is this much slower than --benchmark-compare's baseline, or has none (5%%)",
    )
    add("--roofline-other-gpu", action="store_true", help="compare with a baseline of another GPU, by MBU only")
    parser.addini("roofline_suite", "path of the suite declaration, from the rootdir", default="")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA device")
    config.addinivalue_line("markers", "perf: measures time; never under pytest-xdist")
    config.addinivalue_line("markers", "sanitizer: looks for races and bad memory accesses")
    suite, get = config.getini("roofline_suite"), config.getoption
    parts = config.stash[PARTS] = Parts(settings(config, config.rootpath / suite if suite else None))
    config.stash[BENCHMARKS], config.stash[COMPILE_ERRORS] = Benchmarks(), CompileErrors()
    config.stash[COMPARISON] = comparison.Comparison(get("roofline_gate"), get("roofline_other_gpu"))
    config.pluginmanager.register(SimulatedTests(parts))
    wanted = {"--roofline-require-gpu": parts.settings.require_gpu}
    wanted["--roofline-device cuda"] = get("roofline_device") == "cuda"
    with usage_errors():
        if parts.settings.require_gpu or parts.declared:
            parts.devices.require(*(option for option, on in wanted.items() if on))
    if not parts.declared:
        return
    with usage_errors():
        environment.check_versions(metadata.version("pytest"), metadata.version("pytest-benchmark"))
        environment.check_cupy()
        environment.check_benchmark(hasattr(config.option, "benchmark_compare"))
        environment.check_histogram(getattr(config.option, "benchmark_histogram", None))
        gpu_named(parts.settings.gpu)
        comparison.check_options(config.option)
        assert parts.suite  # a declaration that is wrong stops the run here, once
        # Apart from measured runs of the same GPU, with which no modelled one is ever compared.
        gpu = parts.devices.gpu.name
        comparison.default_storage(config.option, config.rootpath, f"modelled {gpu}" if parts.devices.missing else gpu)


def settings(config: pytest.Config, suite: Path | None) -> Settings:
    get = config.getoption
    rounds = max(Precision.min_rounds, get("benchmark_min_rounds", 0))
    return Settings(
        suite=suite,
        device=get("roofline_device"),
        gpu=get("roofline_gpu"),
        require_gpu=get("roofline_require_gpu"),
        state=get("roofline_state"),
        precision=Precision(get("roofline_precision"), float(get("benchmark_max_time", 1.0)), rounds),
        sanitizer=get("roofline_sanitizer"),
        worker=worker_number() or 0,
    )


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Show this package's errors as pytest's usage errors: the message, and no traceback."""
    try:
        yield
    except RooflineError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    parts = config.stash[PARTS]
    return told.header(parts) if parts.declared else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parts = metafunc.config.stash[PARTS]
    if not parts.declared:
        return
    marks = [mark for mark in metafunc.definition.iter_markers("parametrize") if mark.args or "argnames" in mark.kwargs]
    taken = {name for mark in marks for name in cases.names_of(mark.args[0] if mark.args else mark.kwargs["argnames"])}
    taken |= metafunc.definition._fixtureinfo.name2fixturedefs.keys()  # the project's own fixtures of these names
    with usage_errors():
        for name in sorted(cases.PARAMETERS.keys() & set(metafunc.fixturenames) - taken):
            values = cases.PARAMETERS[name](parts.suite)
            metafunc.parametrize(name, list(values.values()), ids=list(values))


@pytest.hookimpl(tryfirst=True)  # before -m deselects by these marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    parts = config.stash[PARTS]
    for item in items if parts.declared else ():
        names = getattr(item, "fixturenames", ())
        if "cuda_device" in names:
            item.add_marker(pytest.mark.gpu)
        if "sanitize" in names:
            item.add_marker(pytest.mark.sanitizer)
        if "roofline" in names:
            _mark_benchmark(parts, item)


def _mark_benchmark(parts: Parts, item: pytest.Item) -> None:
    options: dict[str, Any] = {}
    for mark in item.iter_markers("benchmark"):  # inner first: marks do not merge by themselves
        options = {**mark.kwargs, **options}
    options.setdefault("group", cases.group_of(item.callspec.params) if hasattr(item, "callspec") else None)
    if parts.devices.missing:
        options["group"] = f"{options['group'] or 'all'}: {label(parts.devices.gpu)}"
    options["timer"] = Timer(parts)
    item.add_marker(pytest.mark.benchmark(**options), append=False)
    item.add_marker(pytest.mark.perf)


class Timer:
    """pytest-benchmark's timer: the clock is made when the first benchmark asks it, not at collection."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.__name__ = "modelled_speed_of_light" if parts.devices.missing else "cuda_events"  # shown in a saved run

    def __call__(self) -> Any:
        return self.parts.clock.timer()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        item.config.stash[COMPARISON].deselected.add(item.nodeid)


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[COMPARISON].asked = comparison.asked_for(session.config)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if (
        item.config.stash[PARTS].declared
        and worker_number() is not None
        and "roofline" in getattr(item, "fixturenames", ())
    ):
        pytest.fail(comparison.PARALLEL, pytrace=False)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    scheduler = session.config.pluginmanager.getplugin("dsession")  # pytest-xdist's, in the process that schedules
    if scheduler is not None:
        session.config.pluginmanager.register(comparison.StopParallel(scheduler))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    config = pyfuncitem.config
    try:
        return (yield)
    except CompileError as error:
        raise pytest.fail.Exception(
            config.stash[COMPILE_ERRORS].told(error, pyfuncitem.nodeid), pytrace=False
        ) from None
    except (DeviceMemoryError, NotCheckedError) as error:
        required = config.stash[PARTS].settings.require_gpu
        if required and not isinstance(error, DeviceMemoryError | UnsupportedError):
            raise
        pytest.skip(not_checked(error))


def not_checked(error: RooflineError | str) -> str:
    """The reason of a skip."""
    return f"{NOT_CHECKED}: {error}"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    parts = item.config.stash[PARTS]
    if not parts.declared:
        return
    if parts.devices.missing and parts.devices.take_launched():
        item.user_properties.append(SIMULATED)
    if {"device", "cuda_device"} & {*getattr(item, "fixturenames", ())}:
        parts.devices.release()


class SimulatedTests:
    """Counts the tests that ran on the simulator, those of pytest-xdist's workers too."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.parts.simulated_tests += report.when == "teardown" and SIMULATED in map(tuple, report.user_properties)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    parts = config.stash[PARTS]
    if parts.declared:
        machine_info["roofline"] = told.machine(parts)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_benchmark_compare_machine_info(
    config: pytest.Config, machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
) -> None:
    if "roofline" in machine_info:
        with usage_errors():
            config.stash[COMPARISON].load(machine_info, compared_benchmark)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_benchmark_group_stats(config: pytest.Config) -> Generator[None, Any, Any]:
    groups = yield
    return [(labelled(name, group), group) for name, group in groups]


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Parameters are saved by their short names: a case is no JSON."""
    for benchmark in output_json["benchmarks"]:
        benchmark["params"] = named(benchmark.get("params"))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, Any, Any]:
    done = yield
    parts = session.config.stash[PARTS]
    if session.config.getoption("roofline_counters") and parts.declared:
        with usage_errors():  # before pytest-benchmark saves the run
            session.config.stash[BENCHMARKS].count(parts.suite, parts.devices, parts.settings.require_gpu)
    return done


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    found = session.config.stash[COMPARISON]
    if session.config.option.collectonly:
        return
    found.conclude(session.config.stash[BENCHMARKS].records)
    if found.failed and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)  # after pytest-benchmark's long table
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    parts = config.stash[PARTS]
    if not parts.declared:
        return
    found, benchmarks = config.stash[COMPARISON], config.stash[BENCHMARKS]
    records = list(benchmarks.records.items())
    sections = tables.sections(records, found.records(), found.lines(), terminalreporter.stats)
    for title, lines in [*sections, *told.footer(parts, benchmarks)]:
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def roofline_parts(request: pytest.FixtureRequest) -> Parts:
    """Everything this process holds; the other fixtures are parts of it."""
    return request.config.stash[PARTS]


@pytest.fixture(scope="session")
def suite(roofline_parts: Parts) -> Suite:
    """The declaration named by the ini key roofline_suite."""
    return roofline_parts.suite


@pytest.fixture
def device(roofline_parts: Parts) -> CudaDevice | SimDevice:
    """What kernels are checked on, a GPU or the simulator. Its memory is freed after the test."""
    return roofline_parts.devices.device


@pytest.fixture
def cuda_device(roofline_parts: Parts) -> CudaDevice:
    """The GPU; the test is skipped where there is none."""
    if roofline_parts.devices.missing:
        pytest.skip(not_checked(f"no CUDA device ({roofline_parts.devices.missing})"))
    return roofline_parts.devices.cuda


@pytest.fixture
def kernels(roofline_parts: Parts, device: Any) -> Callable[..., Any]:
    """``kernels("rms_n3")`` is that kernel, compiled: on a GPU a CuPy RawKernel, else one that is called alike.

    One that is compiled for its shape needs it: ``kernels("rms_n5", Shape(M=4, N=1000))``.
    """
    return roofline_parts.kernel


@pytest.fixture
def check(roofline_parts: Parts, device: Any) -> Callable[..., Any]:
    """``check(case)`` or ``check(variant, shape, inputs=None)`` runs it once and compares with the reference."""

    def run(variant: Any, shape: Any = None, inputs: Any = None) -> Any:
        plan, used = roofline_parts.devices.plan(roofline_parts.case(variant, shape))
        return check_build(used, Build.of(plan), inputs)

    return run


@pytest.fixture
def sanitize(roofline_parts: Parts, device: Any) -> Callable[..., Any]:
    """``sanitize(case, which, volatile=False)``, or a variant and ``shape=``, gives the report of that check.

    In the simulator, and on a GPU machine under compute-sanitizer too; that the two disagree is an error.
    What could not be checked is a skip with the reason, or a failure where the GPU is required.
    """
    required = roofline_parts.settings.require_gpu

    def run(variant: Any, which: str, shape: Any = None, **options: Any) -> Any:
        try:
            report = roofline_parts.checks.check(roofline_parts.case(variant, shape), which, **options)
        except SanitizerNotFoundError as error:
            if required:
                raise
            pytest.skip(not_checked(error))
        if reason := conclude(report, required):
            pytest.skip(reason)
        return report

    return run


@pytest.fixture
def roofline(request: pytest.FixtureRequest, roofline_parts: Parts, device: Any, benchmark: Any) -> Callable[..., Any]:
    """``roofline(case, state=None)``, or a variant and a shape, checks the answer, then times it.

    The time is pytest-benchmark's; the result is the :class:`~pytest_roofline.bench.record.Record`, None where
    benchmarks are disabled. Without a GPU the time is the speed of light on the GPU that --roofline-gpu names.
    """

    def measure(variant: Any, shape: Any = None, state: str | None = None) -> Any:
        case, parts = roofline_parts.case(variant, shape), roofline_parts
        return request.config.stash[BENCHMARKS].run(benchmark, parts.clock, case, state or parts.settings.state)

    return measure
