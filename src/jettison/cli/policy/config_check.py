"""`jettison config check`: every error with its place, and everything worth a second thought."""

from __future__ import annotations

import click

from jettison.cli.options.kubelet_flags import ConfigArguments, KubeletCommand
from jettison.cli.output import Remarks, emit
from jettison.cli.policy.config_input import NodeArguments, config_options, on_node, refuse_two_standard_inputs
from jettison.cli.policy.config_warnings import node_findings
from jettison.cli.policy.findings import Finding, counted
from jettison.cli.policy.policy_input import PolicyInput, collect_sources, inspect
from jettison.engine.config.policy import build_policy
from jettison.errors import PolicyError


@click.command("check", cls=KubeletCommand, short_help="Every error, and everything worth a second thought.")
@config_options
@click.pass_context
def command(ctx: click.Context, config: ConfigArguments, node: NodeArguments, output: str) -> None:
    """Every error in FILE, drop-ins and flags with its file, line, key and value; then warnings.

    Exits with 2 if there are errors, with 0 if there are none, whatever the warnings.
    """
    refuse_two_standard_inputs(config, node)
    errors, warnings = _findings(config, node)
    emit(
        output,
        Remarks(),
        lambda: _text(errors, warnings),
        lambda: {
            "kind": "Findings",
            "errors": [each.data() for each in errors],
            "warnings": [each.data() for each in warnings],
        },
    )
    if errors:
        ctx.exit(PolicyError.exit_code)


def _findings(config: ConfigArguments, node: NodeArguments) -> tuple[list[Finding], list[Finding]]:
    errors: list[Finding] = []
    sources = collect_sources(config, errors)
    if errors:
        return errors, []
    errors, effective = inspect(sources)
    if errors or effective is None:
        said = (*sources.warnings, *(effective.warnings if effective is not None else ()))
        return errors, [Finding(warning) for warning in said]
    return node_findings(on_node(PolicyInput(build_policy(effective), sources), node))


def _text(errors: list[Finding], warnings: list[Finding]) -> str:
    lines = [f"error: {each}" for each in errors] + [f"warning: {each}" for each in warnings]
    return "\n".join((*lines, f"{counted(len(errors), 'error')}, {counted(len(warnings), 'warning')}"))
