"""Every scenario of sdks/conformance, with handlers in threads and on the event loop."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from .scenario import Scenario
from .server import REPOSITORY

FILES = sorted((REPOSITORY / "sdks" / "conformance").glob("*.yaml"))
SCENARIOS = [scenario for file in FILES for scenario in yaml.safe_load(file.read_text())]


def cases() -> list[Any]:
    made = []
    for scenario in SCENARIOS:
        has_worker = any("worker" in step for step in scenario["steps"])
        for mode in ("sync", "async") if has_worker else ("sync",):
            made.append(pytest.param(scenario, mode, id=f"{scenario['name']} [{mode}]"))
    return made


@pytest.mark.parametrize(("scenario", "mode"), cases())
def test_scenario(url: str, scenario: dict[str, Any], mode: str) -> None:
    Scenario(url, mode).play(scenario["steps"])
