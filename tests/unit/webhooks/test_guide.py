"""The programs of the receiver's guide verify what we sign, and nothing else."""

from __future__ import annotations

import base64
import hmac
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from kontobahn.webhooks.receiver import key_of, new_secret, signed_headers
from tests.waiting import PATIENCE_SECONDS

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "webhooks.md"
BODY = '{"event":"payment_update","data":{"name":"Bäckerei „Süß“"}}'


def example(language: str) -> str:
    match = re.search(rf"^ *```{language}\n(.*?)^ *```", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert match is not None
    return match[1]


def requests() -> list[tuple[bool, str, dict[str, str], str]]:
    """Tells whether it is ours, the secret, and the request."""
    old, new, other, now = new_secret(), new_secret(), new_secret(), int(time.time())
    body = BODY.encode()
    both = signed_headers("evt_1", now, body, [key_of(new), key_of(old)])
    late = signed_headers("evt_1", now - 400, body, [key_of(new)])
    return [
        (True, new, both, BODY),
        (True, old, both, BODY),
        (False, other, both, BODY),
        (False, new, both, BODY + " "),
        (False, new, {**both, "webhook-id": "evt_2"}, BODY),
        (False, new, {**both, "webhook-timestamp": "soon"}, BODY),
        (False, new, {**both, "webhook-signature": "v1,AAAA"}, BODY),
        (False, new, late, BODY),
    ]


def test_the_python_program_tells_ours_from_others() -> None:
    namespace: dict[str, Any] = {}
    exec(example("python"), namespace)
    for expected, secret, headers, body in requests():
        assert namespace["verify"](secret, headers, body.encode()) == expected, headers


def run_in_node(tmp_path: Path, program: str) -> Any:
    file = tmp_path / "program.cjs"
    file.write_text(program)
    done = subprocess.run(["node", str(file)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_code_node_takes_ours_and_refuses_others(tmp_path: Path) -> None:
    """As n8n runs it: the body of an async function, with `$input`, `this.helpers` and `require`."""
    code, cases = example("n8n"), requests()
    given = json.dumps([[code.replace("whsec_…", secret), headers, body] for _, secret, headers, body in cases])
    outcomes = run_in_node(
        tmp_path,
        f"""
const AsyncFunction = (async () => {{}}).constructor;
const run = async ([code, headers, body]) => {{
  const helpers = {{ getBinaryDataBuffer: async () => Buffer.from(body) }};
  const $input = {{ first: () => ({{ json: {{ headers }} }}) }};
  try {{ return (await new AsyncFunction("$input", "require", code).call({{ helpers }}, $input, require))[0].json; }}
  catch (error) {{ return error.message; }}
}};
Promise.all({given}.map(run)).then((all) => console.log(JSON.stringify(all)));
""",
    )
    refused = "This request is not Kontobahn's."
    assert outcomes == [json.loads(body) if ours else refused for ours, _, _, body in cases]


def test_the_crypto_node_makes_the_same_signature() -> None:
    """It is given its secret as a text, and signs what its expression comes to."""
    for ours, secret, headers, body in requests():
        text = base64.b64decode(secret.removeprefix("whsec_")).decode("ascii")
        assert text.isprintable()
        signed = example("crypto-node").strip()
        for name in ("webhook-id", "webhook-timestamp"):
            signed = signed.replace(f"{{{{ $('Webhook').item.json.headers['{name}'] }}}}", headers[name])
        signed = signed.replace("{{ $json.data }}", body)
        assert "{{" not in signed
        expected = base64.b64encode(hmac.digest(text.encode(), signed.encode(), "sha256")).decode()
        fresh = headers["webhook-timestamp"].isdigit() and abs(time.time() - int(headers["webhook-timestamp"])) < 300
        assert (f"v1,{expected}" in headers["webhook-signature"].split(" ") and fresh) == ours


def test_the_javascript_program_tells_ours_from_others(tmp_path: Path) -> None:
    cases = requests()
    program = tmp_path / "verify.mjs"
    given = json.dumps([[secret, headers, body] for _, secret, headers, body in cases])
    program.write_text(
        example("javascript")
        + f"\nconst cases = {given};\n"
        + "console.log(JSON.stringify(cases.map(([secret, headers, body]) => verify(secret, headers, Buffer.from(body)))));\n"
    )
    done = subprocess.run(["node", str(program)], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    assert json.loads(done.stdout) == [expected for expected, *_ in cases]
