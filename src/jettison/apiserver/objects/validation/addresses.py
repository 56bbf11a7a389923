"""IP addresses as old fields take them: with leading zeros, and IPv4 in IPv6. What newer clients should write."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.mistakes import Mistake, internal, invalid
from jettison.engine.numbers.strconv import quote

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_RULE: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NETWORK_RULE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_V4: Final = re.compile(r"\d{1,}\.\d{1,}\.\d{1,}\.\d{1,}", re.ASCII)
_LONGEST: Final = 64


def read_address(text: str) -> Address | None:
    """The address, with leading zeros forgiven; None for what is none. A zone is not part of an address."""
    if len(text) > _LONGEST or "%" in text:
        return None
    if _V4.fullmatch(text):
        text = ".".join(str(int(part)) for part in text.split("."))
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def validate_address(text: str, field: str, former: Collection[str] = ()) -> Iterator[Mistake]:
    """One address, of which programs cannot read two things; a wrong one that was there before may stay."""
    if text in former:
        return
    if read_address(text) is None:
        yield invalid(field, text, _RULE)
        return
    try:
        strict = ipaddress.ip_address(text)
    except ValueError:
        yield invalid(field, text, "must not have leading 0s")
        return
    if isinstance(strict, ipaddress.IPv6Address) and strict.ipv4_mapped:
        yield invalid(field, text, "must not be an IPv4-mapped IPv6 address")


def validate_canonical_address(text: str, field: str) -> Iterator[Mistake]:
    """One address in a newer field, where it can be written in one way only."""
    mistakes = list(validate_address(text, field))
    yield from mistakes
    if not mistakes and text != (canonical := str(ipaddress.ip_address(text))):
        yield invalid(field, text, f"must be in canonical form ({quote(canonical)})")


def address_warnings(text: str, field: str) -> Iterator[str]:
    """What works and should be written otherwise."""
    address = read_address(text)
    if address is None:
        return
    try:
        strict: Address | None = ipaddress.ip_address(text)
    except ValueError:
        strict = None
    mapped = strict.ipv4_mapped if isinstance(strict, ipaddress.IPv6Address) else None
    if strict is None or mapped is not None:
        yield f"{field}: non-standard IP address {quote(text)} is invalid: use {quote(str(mapped or address))}"
    elif isinstance(strict, ipaddress.IPv6Address) and str(strict) != text:
        yield f"{field}: IPv6 address {quote(text)} should be in RFC 5952 canonical format ({quote(str(strict))})"


def network_warnings(text: str, field: str) -> Iterator[str]:
    """The same of a range of addresses."""
    host, _, length = text.partition("/")
    address = read_address(host)
    if address is None or not (length.isascii() and length.isdigit()) or int(length[:4]) > address.max_prefixlen:
        return
    network = ipaddress.ip_network(f"{address}/{int(length[:4])}", strict=False)
    is_clear = address == network.network_address
    if not is_clear:
        choices = f"{quote(str(network))} or {quote(f'{address}/{address.max_prefixlen}')}"
        yield f"{field}: CIDR value {quote(text)} is ambiguous in this context (should be {choices}?)"
    try:
        strict = str(ipaddress.ip_interface(text))
    except ValueError:
        yield f"{field}: non-standard CIDR value {quote(text)} is invalid: use {quote(str(network))}"
        return
    if is_clear and network.version == 6 and strict != text:
        yield f"{field}: IPv6 CIDR value {quote(text)} should be in RFC 5952 canonical format ({quote(strict)})"


def validate_pair(texts: list[str], shown: Any, field: str) -> Iterator[Mistake]:
    """Several addresses are one of each family."""
    if len(texts) < 2:
        return
    wrong = [(index, text) for index, text in enumerate(texts) if read_address(text) is None]
    for index, text in wrong[:1]:
        yield internal(field, f"failed to check for dual stack with error:invalid IP[{index}]: {text}")
    families = {_family(address) for text in texts if (address := read_address(text)) is not None}
    if len(families) != 2 or len(texts) > 2:
        yield invalid(field, shown, "may specify no more than one IP for each IP family")


def validate_network(text: str, field: str, former: Collection[str] = ()) -> Iterator[Mistake]:
    """A range of addresses, named by its first one; a wrong one that was there before may stay."""
    if text in former:
        return
    network, (start, _, bits) = read_network(text), text.partition("/")
    if network is None:
        yield invalid(field, text, _NETWORK_RULE)
        return
    try:
        first = ipaddress.ip_address(start)
    except ValueError:
        first = None
    if first is None or str(int(bits)) != bits:
        yield invalid(field, text, "must not have leading 0s in IP or prefix length")
    elif isinstance(first, ipaddress.IPv6Address) and first.ipv4_mapped:
        yield invalid(field, text, "must not have an IPv4-mapped IPv6 address")
    elif first != network.network_address:
        yield invalid(field, text, "must not have bits set beyond the prefix length")


def validate_network_pair(texts: list[str], field: str) -> Iterator[Mistake]:
    """Several ranges are one of each family."""
    if len(texts) < 2:
        return
    networks = [read_network(text) for text in texts]
    if None in networks:
        index = networks.index(None)
        why = f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {texts[index]})"
        yield internal(field, f"invalid PodCIDRs. failed to check with dual stack with error:{why}")
    if len(texts) > 2 or len({each.version for each in networks if each is not None}) != 2:
        yield invalid(field, texts, "may specify no more than one CIDR for each IP family")


def read_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The range, with leading zeros forgiven, and addresses that lie within it; None for what is none."""
    start, slash, bits = text.partition("/")
    address = read_address(start)
    if address is None or not slash or not (bits.isascii() and bits.isdigit() and len(bits) < 4):
        return None
    try:
        return ipaddress.ip_network((address, int(bits)), strict=False)
    except ValueError:
        return None


def _family(address: Address) -> int:
    """Go takes an IPv4 address in IPv6 for one of IPv4."""
    return 4 if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped else address.version
