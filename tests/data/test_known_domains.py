"""Data sets known by name: the table, the cache, the mirror and the network."""

import hashlib
import http.server
import os
import shutil
import socket
import threading
from pathlib import Path

import pytest

from crossner_cli.data import domains, known_domains
from crossner_cli.data.domains import find_domain
from crossner_cli.data.known_domains import KnownDomain, KnownFile
from crossner_cli.data.sentences import SPLITS
from crossner_cli.errors import CrossNERError

MIRROR = os.environ.get("CROSSNER_MIRROR", "")
CONTENT = b"Paris\tB-location\n\n" * 50
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Answers each path with the next of its replies, the last one for ever; keeps what was asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.replies, self.asked = {}, []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        replies = self.server.replies.get(self.path, [(404, b"", 0)])
        status, content, missing = replies.pop(0) if len(replies) > 1 else replies[0]
        if status == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) - missing])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("CROSSNER_CACHE", str(folder))
    monkeypatch.delenv("CROSSNER_MIRROR", raising=False)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return folder


@pytest.fixture
def toy(cache, server, monkeypatch):
    """A known data set of one file, which the server has upstream."""
    file = KnownFile("tech.test", DIGEST, len(CONTENT), 50, 50, 1, {"location": 50})
    known = KnownDomain("toy", {"test": file}, ("location",), "source", "licence", f"{server.url}/upstream")
    monkeypatch.setattr(domains, "known_domains", lambda: {"toy": known})
    server.replies["/upstream/tech.test"] = [(200, CONTENT, 0)]
    return cache / "toy" / "tech.test"


def failure(name="toy"):
    with pytest.raises(CrossNERError) as raised:
        find_domain(name)
    assert raised.value.hint
    return str(raised.value)


def left_in(cache):
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def refused_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_known_name_is_fetched_once_and_then_read_from_the_cache(toy, server):
    first = find_domain("toy")
    assert first.files == {"test": toy}
    assert first.origins == {"test": f"{server.url}/upstream/tech.test"}
    assert toy.read_bytes() == CONTENT
    assert toy.stat().st_mode & 0o444 == 0o444, "a cache may be shared"
    server.replies.clear()
    assert find_domain("toy").origins == {"test": "cache"}
    assert server.asked == ["/upstream/tech.test"]


@pytest.mark.parametrize("broken", [(200, CONTENT, 10), (200, CONTENT, len(CONTENT)), ("reset", b"", 0), (503, b"", 0)])
def test_a_cut_connection_is_tried_again(toy, server, cache, broken):
    server.replies["/upstream/tech.test"] = [broken, broken, (200, CONTENT, 0)]
    find_domain("toy")
    assert toy.read_bytes() == CONTENT
    assert len(server.asked) == 3
    assert left_in(cache) == ["tech.test"]


OTHER = CONTENT.replace(b"Paris", b"Rome!")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ((200, CONTENT, 10), "IncompleteRead"),
        ((404, b"", 0), "404 Client Error"),
        ((200, OTHER, 0), f"expected sha256:{DIGEST} but got {hashlib.sha256(OTHER).hexdigest()}"),
        (("reset", b"", 0), "no connection"),
    ],
    ids=["cut", "gone", "other-version", "no-network"],
)
def test_a_file_that_cannot_be_fetched_is_an_error_that_leaves_nothing(toy, server, cache, reply, reason):
    server.replies["/upstream/tech.test"] = [reply]
    message = failure()
    assert f"{server.url}/upstream/tech.test: " in message and reason in message
    assert "CROSSNER_MIRROR=FOLDER, which holds toy/tech.test" in message
    assert len(server.asked) >= 1 + known_domains.RETRIES
    assert left_in(cache) == []


def test_a_mirror_is_asked_first(toy, server, tmp_path, monkeypatch):
    (tmp_path / "mirror" / "toy").mkdir(parents=True)
    (tmp_path / "mirror" / "toy" / "tech.test").write_bytes(CONTENT)
    server.replies["/mirror/toy/tech.test"] = [(200, CONTENT, 0)]
    for mirror, asked in ((str(tmp_path / "mirror"), []), (f"{server.url}/mirror/", ["/mirror/toy/tech.test"])):
        monkeypatch.setenv("CROSSNER_MIRROR", mirror)
        assert find_domain("toy").files == {"test": toy}
        assert toy.read_bytes() == CONTENT
        assert server.asked == asked
        toy.unlink()


@pytest.mark.parametrize(
    "mirror", ["{server}/mirror", "{folder}/missing", "{folder}/other", "http://127.0.0.1:{port}", "http://["]
)
def test_a_mirror_without_that_version_of_the_file_is_passed_over(toy, server, cache, tmp_path, monkeypatch, mirror):
    (tmp_path / "other" / "toy").mkdir(parents=True)
    (tmp_path / "other" / "toy" / "tech.test").write_bytes(b"other")
    mirror = mirror.format(server=server.url, folder=tmp_path, port=refused_port())
    monkeypatch.setenv("CROSSNER_MIRROR", mirror)
    assert find_domain("toy").origins == {"test": f"{server.url}/upstream/tech.test"}
    assert left_in(cache) == ["tech.test"]


def test_a_damaged_cached_file_is_fetched_again_and_a_cache_that_cannot_be_written_is_an_error(toy, cache):
    for damage in (b"", CONTENT[:-1], CONTENT + b"x"):
        find_domain("toy")
        toy.write_bytes(damage)
        assert find_domain("toy").origins["test"] != "cache"
        assert toy.read_bytes() == CONTENT
    shutil.rmtree(cache)
    cache.write_text("a file where the folder should be")
    assert "cannot be written" in failure() and "CROSSNER_CACHE" in failure()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"CROSSNER_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"CROSSNER_CACHE": "", "XDG_CACHE_HOME": "/b"}, "/b/crossner"),
        ({"CROSSNER_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/crossner"),
    ],
)
def test_the_cache_is_where_the_user_keeps_caches(monkeypatch, variables, expected):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert known_domains.cache_folder() == Path(expected)


def test_the_list_tells_size_types_licence_and_source_of_every_data_set_and_only_safe_names_and_addresses():
    listed = known_domains.known_domains()
    crossner = ["conll2003", "politics", "science", "music", "literature", "ai"]
    others = ["mit-movie", "mit-restaurant", "broad-twitter", "bionlp13cg", "bionlp13pc"]
    years = ["cbs-scitech-2019", "cbs-scitech-2020"]
    assert list(listed) == [*crossner, *others, *years, "sample-source", "sample-target"]
    for known in listed.values():
        assert known.types and known.licence and known.source and set(known.files) <= set(SPLITS)
        assert known.upstream.startswith("https://raw.githubusercontent.com/") or known.name.startswith("sample-")
        for file in known.files.values():
            assert file.sentences > 0 and file.words > 0 and set(file.entities) <= set(known.types)
            assert Path(file.name).name == file.name and not file.name.startswith(".")
            assert len(file.sha256) == 64 and int(file.sha256, 16)


@pytest.mark.skipif(not (Path(MIRROR) / "SHA256SUMS").is_file(), reason="CROSSNER_MIRROR has no SHA256SUMS")
def test_digests_and_addresses_are_those_of_the_list_beside_the_mirror():
    listed = {}
    for line in (Path(MIRROR) / "SHA256SUMS").read_text().splitlines():
        if not line.startswith("#"):
            name, digest, upstream = line.split()
            repository, place = upstream.split("@")
            url = f"https://raw.githubusercontent.com/{repository}/{place.replace(':', '/')}"
            listed[name] = (digest, url)
    known = known_domains.known_domains().values()
    ours = {
        f"{each.name}/{file.name}": (file.sha256, f"{each.upstream}/{file.name}")
        for each in known
        if each.upstream
        for file in each.files.values()
    }
    assert ours == listed
