"""Headless Chromium: runs a script on a page that this process serves, and returns its result."""

from __future__ import annotations

import json
import queue
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import STDOUT
from tempfile import TemporaryDirectory
from typing import Any

from harness.debian import started
from harness.processes import reap, spawn
from parts import STAMPS

SCRIPT = "/script-of-the-test"
# Shows one page after another, at the requested width.
PAGE = """<!doctype html><body><script type="module">
const frame = document.body.appendChild(document.createElement('iframe'));
async function show(path, width) {
  frame.style.cssText = `border: 0; height: 900px; width: ${width}px`;
  await new Promise((resolve) => { frame.onload = resolve; frame.src = path; });
  return frame.contentDocument;
}
async function seen(given) {
%s
}
const report = await seen(%s).catch((error) => ({ error: String(error) }));
await fetch('/', { method: 'POST', body: JSON.stringify(report) });
</script>"""

# Font configuration for a browser that is unpacked but not installed.
FONTS = """<fontconfig>
  <dir>%s/usr/share/fonts</dir>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
</fontconfig>
"""


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, *rest: Any, script: str, reports: queue.Queue[Any], **more: Any) -> None:
        self.script, self.reports = script, reports
        super().__init__(*rest, **more)

    def do_GET(self) -> None:
        if self.path != SCRIPT:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.script.encode())

    def do_POST(self) -> None:
        self.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing: a thousand lines about requests would hide the failure."""


def look(site: Path, script: str, given: object, limit: float = 300.0) -> Any:
    """Return the result of the script. It can use the value `given` and `await show(path, width)`.

    `show` opens a page of the site and returns its document. `limit` is in seconds.
    """
    command, env = started("chromium")
    reports: queue.Queue[Any] = queue.Queue()
    script = PAGE % (script, json.dumps(given))
    handler = partial(_Handler, script=script, reports=reports, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, TemporaryDirectory() as scratch:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said, fonts = Path(scratch, "said"), Path(scratch, "fonts.conf")
        fonts.write_text(FONTS % (STAMPS / "chromium"))
        more = {"FONTCONFIG_FILE": str(fonts)} if env else {}
        options = (
            # As root, Chromium needs `--no-sandbox`. Without a debugging port it would exit immediately.
            *("--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--window-size=1600,1000"),
            f"--user-data-dir={scratch}/profile",
        )
        with said.open("wb") as log:
            process = spawn(
                [command, *options, f"http://127.0.0.1:{server.server_port}{SCRIPT}"],
                env={**env, **more, "HOME": scratch},
                stdout=log,
                stderr=STDOUT,
            )
        try:
            report = reports.get(timeout=limit)
        except queue.Empty:
            raise AssertionError(f"{command} reported nothing in {limit} s:\n{said.read_text()}") from None
        finally:
            reap(process)
            server.shutdown()
    assert not isinstance(report, dict) or "error" not in report, report
    return report
