"""TLS goes by the name, though an address is connected to."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.web_lab import OTHER, PUBLIC, Mapped, Server, answer, get, redirect, serving
from toolwire.codetools import fetching
from toolwire.codetools.fetching import Network
from toolwire.errors import ToolError

x509 = pytest.importorskip("cryptography.x509", reason="certificates are made with cryptography, which is not there")
TODAY = dt.datetime.now(dt.UTC)


class Authority:
    """Makes certificates that only this test trusts."""

    def __init__(self, folder: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "An authority")])
        self.path = folder / "authority.pem"
        self.path.write_bytes(self._signed(self.name, self.key, [], days=30, is_authority=True))

    def _signed(self, name: Any, key: Any, names: list[Any], days: int, *, is_authority: bool = False) -> bytes:
        from cryptography.hazmat.primitives import hashes, serialization

        builder = (
            x509.CertificateBuilder(self.name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(TODAY - dt.timedelta(days=60))
            .not_valid_after(TODAY + dt.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if is_authority:
            builder = builder.add_extension(x509.KeyUsage(*[False] * 5, True, True, *[False] * 2), critical=True)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        made: bytes = builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return made

    def server(self, name: str, days: int = 30) -> ssl.SSLContext:
        """Give what a server of this name needs."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        try:
            known: Any = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            known = x509.DNSName(name)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "A server")])
        path = self.folder / f"{name.replace('*', 'any')}{days}.pem"
        plain = serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        path.write_bytes(private + self._signed(subject, key, [known], days))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def trust(self) -> ssl.SSLContext:
        """Give what a client that trusts it needs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.path)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    return Authority(tmp_path_factory.mktemp("authority"))  # type: ignore[return-value]


@pytest.mark.row("E18")
def test_certificate_sni_and_host_go_by_the_name(authority: Authority) -> None:
    context, seen = authority.server("good.example"), []
    context.sni_callback = lambda _socket, name, _context: seen.append(name)
    with serving(answer(b"safe"), tls=context) as server:
        network = Mapped({PUBLIC: server}, {"good.example": [PUBLIC]}, trust=authority.trust())
        found = get("https://good.example:8443/x", network)
    assert found.body == b"safe"
    assert seen == ["good.example"]
    assert b"host: good.example:8443" in server.requests[0].lower()
    assert network.dialled == [(PUBLIC, 8443)]


@pytest.mark.row("E18")
def test_an_address_has_a_certificate_of_its_own(authority: Authority) -> None:
    with serving(answer(b"safe"), tls=authority.server(PUBLIC)) as server:
        assert get(f"https://{PUBLIC}/", Mapped({PUBLIC: server}, trust=authority.trust())).body == b"safe"


@pytest.mark.parametrize(
    ("name", "days", "reason"),
    [
        ("other.example", 30, "match"),
        ("*.good.example", 30, "match"),
        (PUBLIC, 30, "match"),
        ("good.example", -30, "expired"),
    ],
)
@pytest.mark.row("E14")
def test_a_certificate_that_is_wrong_is_an_error(authority: Authority, name: str, days: int, reason: str) -> None:
    with serving(answer(b"x"), tls=authority.server(name, days)) as server:
        network = Mapped({PUBLIC: server}, {"good.example": [PUBLIC]}, trust=authority.trust())
        with pytest.raises(ToolError, match=reason):
            get("https://good.example/", network)
    assert server.requests == []


@pytest.mark.row("E14", "E11")
def test_only_the_systems_certificates_are_trusted_whatever_the_environment_says(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    monkeypatch.setenv("SSL_CERT_DIR", str(authority.path.parent))
    fetching.system_trust.cache_clear()
    with serving(answer(b"x"), tls=authority.server("good.example")) as server:
        with pytest.raises(ToolError, match=r"cannot connect to good\.example, port 443: .*certificate"):
            get("https://good.example/", Mapped({PUBLIC: server}, {"good.example": [PUBLIC]}))
        # Control: a context of the standard library believes the environment.
        trusting = Mapped({PUBLIC: server}, {"good.example": [PUBLIC]}, trust=ssl.create_default_context())
        assert get("https://good.example/", trusting).body == b"x"
    fetching.system_trust.cache_clear()


@pytest.mark.row("E14")
def test_a_server_that_speaks_no_tls_is_an_error(authority: Authority) -> None:
    def garbage(_request: bytes) -> bytes:
        return b"x"

    with serving(garbage) as server:
        server._answer = lambda connection: connection.sendall(b"220 mail.example ESMTP\r\n")  # type: ignore[method-assign]
        network = Mapped({PUBLIC: server}, {"good.example": [PUBLIC]}, trust=authority.trust())
        with pytest.raises(ToolError, match="cannot connect"):
            get("https://good.example/", network)


@pytest.mark.row("E8")
def test_headers_with_secrets_do_not_leave_tls(authority: Authority) -> None:
    with (
        serving(redirect("http://good.example/plain"), tls=authority.server("good.example")) as first,
        serving(answer(b"x")) as second,
    ):

        class Two(Mapped):
            async def connect(self, address: str, port: int) -> Any:
                self.servers: dict[str, Server] = {address: first if port == 443 else second}
                return await super().connect(address, port)

        network = Two({}, {"good.example": [PUBLIC]}, trust=authority.trust())
        found = get("https://good.example/", network, headers={"X-Api-Key": "s3cret", "Cookie": "s3cret"})
    assert b"s3cret" in first.requests[0]
    assert b"s3cret" not in second.requests[0]
    assert found.dropped == ("x-api-key", "cookie")


@pytest.mark.row("E18")
def test_a_redirect_to_another_name_on_the_same_address_is_checked_by_that_name(
    authority: Authority,
) -> None:
    with serving(redirect("https://b.example/"), tls=authority.server("a.example")) as server:
        names = {"a.example": [PUBLIC], "b.example": [PUBLIC, OTHER]}
        with pytest.raises(ToolError, match="match"):
            get("https://a.example/", Mapped({PUBLIC: server}, names, trust=authority.trust()))


def test_the_certificates_of_the_system_are_loaded_once() -> None:
    assert Network().trust() is Network().trust()
    assert Network().trust().verify_mode is ssl.CERT_REQUIRED
    assert Network().trust().check_hostname
    assert asyncio.iscoroutinefunction(Network().resolve)
