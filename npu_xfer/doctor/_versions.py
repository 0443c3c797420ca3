"""Versions of CANN, the driver and the firmware, and combinations that are known to be bad."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

from npu_xfer.doctor._findings import finding
from npu_xfer.doctor._library import asked_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from npu_xfer.doctor._findings import Finding
    from npu_xfer.doctor._host import Host
    from npu_xfer.doctor._probed import Probed

__all__ = ["INSTALL_INFO", "check_known", "check_packages", "check_versions", "version_key"]

INSTALL_INFO = "/etc/ascend_install.info"
_DEFAULT_INSTALL = "/usr/local/Ascend"
_NUMBERS = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?", re.IGNORECASE)
_BRANCH = re.compile(r"V\d+R\d+C\d+")
_STAGES = re.compile(r"(alpha|beta|rc)[.-]?(\d*)", re.IGNORECASE)
_RANK = {"alpha": 0, "beta": 1, "rc": 2}
_RELEASE = (3, 0)


def version_key(text: str) -> tuple[Any, ...] | None:
    """Orders versions such as 8.0.RC1.alpha003 < 8.0.RC1 < 8.0.0 < 9.0.0-beta.1; None for other texts.

    By CANN's rule alpha, beta, release candidate, release; an alpha of a candidate comes before it.
    """
    numbers = _NUMBERS.match(text.strip())
    if numbers is None:
        return None
    stages = [
        (_RANK[word.lower()], int(number or 0)) for word, number in _STAGES.findall(text[numbers.end() :])
    ]
    return (*(int(part or 0) for part in numbers.groups()), *stages, _RELEASE)


def _info(host: Host, name: str) -> dict[str, str]:
    """The version.info of the driver or the firmware, which lie beside each other."""
    installed = host.fields(INSTALL_INFO, "=")
    folder = installed.get(f"{name.capitalize()}_Install_Path_Param", _DEFAULT_INSTALL)
    return host.fields(f"{folder}/{name}/version.info", "=")


def _product(info: Mapping[str, str], key: str) -> str | None:
    """A package's version as its release is called. "Version" may be that of a component (7.6.0.1.220 in CANN
    8.0.0), and then another key has the name of the release."""
    named = info.get(key)
    return named if named and version_key(named) else info.get("Version")


def _home_version(host: Host, home: str) -> str | None:
    for file in ("share/info/runtime/version.info", "runtime/version.info"):
        version = _product(host.fields(f"{home}/{file}", "="), "version_dir")
        if version:
            return version
    return None


def _versions(host: Host, probed: Probed) -> dict[str, str | None]:
    told = probed.ok("versions").get("versions", {})
    cann = told.get("runtime")
    if cann is None and not probed.simulated:
        homes = (_home_version(host, home) for _, home in asked_settings(host).cann_homes)
        cann = next((version for version in homes if version), None)
    return {
        "cann": cann,
        "acl": told.get("acl"),
        "driver": _product(_info(host, "driver"), "package_version"),
        # Counted on its own, and only this number is in the driver's list.
        "firmware": _info(host, "firmware").get("Version"),
    }


def check_versions(host: Host, probed: Probed) -> Iterator[Finding]:
    """What is installed."""
    found = _versions(host, probed)
    named = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    chip = probed.ok("versions").get("chip")
    yield finding("versions", listed=named or "none told", chip=chip or "not told", **found)
    if probed.simulated is False and found["cann"] is None:
        yield finding("cann-version-unknown")
    if found["driver"] is None:
        yield finding("driver-version-unknown", looked=f"{INSTALL_INFO}, {_DEFAULT_INSTALL}/driver")
    homes = {home: _home_version(host, home) for _, home in asked_settings(host).cann_homes}
    told = {home: version for home, version in homes.items() if version}
    if probed.simulated is False and found["cann"]:
        told["the library in use"] = found["cann"]
    # Two numbers: the library and the files may write the rest differently.
    if len({(version_key(version) or ())[:2] for version in told.values()}) > 1:
        yield finding(
            "cann-versions-differ",
            versions=told,
            listed=", ".join(f"{place}: {version}" for place, version in told.items()),
        )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def check_packages(host: Host, probed: Probed) -> Iterator[Finding]:
    """What the packages say of each other in their own files."""
    driver = _info(host, "driver")
    firmware = _info(host, "firmware").get("Version")
    listed = driver.get("compatible_version_fw", "")
    ranges = re.findall(r"\[([\d.]+),([\d.]+)\]", listed)
    if firmware and ranges:
        number = _numbers(firmware)
        if not any(_numbers(low) <= number <= _numbers(high) for low, high in ranges):
            named = _product(driver, "package_version")
            yield finding("driver-firmware", firmware=firmware, ranges=listed, driver=named)
    for _, home in asked_settings(host).cann_homes:
        yield from _unlisted(host, home, driver)


def _unlisted(host: Host, home: str, driver: Mapping[str, str]) -> Iterator[Finding]:
    """A driver and a CANN where neither has the other in its list of branches."""
    folders = [f"{home}/{name}" for name in host.names(home, r"(?:x86_64|aarch64|arm64)-linux")]
    for folder in (*folders, f"{home}/share/info"):
        cann = host.fields(f"{folder}/ascend_toolkit_install.info", "=")
        own = _BRANCH.findall(cann.get("innerversion", ""))
        other = _BRANCH.findall(driver.get("Innerversion", ""))
        fitting = _BRANCH.findall(cann.get("compatible_version", ""))
        fitting_driver = _BRANCH.findall(driver.get("compatible_version", ""))
        if not (own and other and fitting and fitting_driver):
            continue
        if other[0] not in fitting and own[0] not in fitting_driver:
            facts = {"cann": cann.get("version", own[0]), "cann_branch": own[0], "driver_branch": other[0]}
            yield finding("driver-unlisted", driver=_product(driver, "package_version"), **facts)
        return


def _inside(version: str | None, limits: Mapping[str, str]) -> bool:
    key = None if version is None else version_key(version)
    if key is None:
        return False
    low, high = limits.get("from"), limits.get("below")
    return (low is None or key >= (version_key(low) or ())) and (
        high is None or key < (version_key(high) or ())
    )


def check_known(host: Host, probed: Probed) -> Iterator[Finding]:
    """Each row of known.json whose ranges all hold."""
    found = _versions(host, probed)
    rows = json.loads((resources.files("npu_xfer.doctor") / "known.json").read_text(encoding="utf-8"))
    for row in rows:
        if all(_inside(found[package], limits) for package, limits in row["versions"].items()):
            yield finding(row["id"], **{package: found[package] for package in row["versions"]})
