"""TLS, tokens and where a server may listen, by the command line."""

import os
import subprocess
import unittest

from tests.integration import junit
from tests.integration import recurve

MAKE_CERTIFICATES = os.path.abspath("tests/integration/make_certificates")
CONFIG = """
input { token_embedding { vocabulary_size: 5 embedding_size: 4 } }
blocks { sru { hidden_size: 4 } }
output { linear { size: 5 } }
loss { kind: CROSS_ENTROPY }
"""
TOKENS = """
# who    token                  scopes
reader   reader-0123456789abcd  read
operator operator-0123456789ab  read,predict,train,admin
"""


class SecurityTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(recurve.Folder())
        subprocess.run([MAKE_CERTIFICATES, self.folder], check=True)
        tokens = recurve.write(self.folder, "tokens", TOKENS)
        self.reader = recurve.write(self.folder, "reader", "reader-0123456789abcd\n")
        self.operator = recurve.write(self.folder, "operator", "operator-0123456789ab\n")
        self.tls = ["--tls_certificate", self.path("server.pem"),
                    "--tls_key", self.path("server.key")]
        self.tokens = ["--tokens_file", tokens]

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *flags, **options):
        server = self.enterContext(recurve.Server(self.path("data"), flags=flags, **options))
        # The certificate is for localhost.
        server.address = "localhost:" + server.address.rpartition(":")[2]
        return server

    def expect(self, server, code, *arguments, **options):
        result = server.run(*arguments, **options)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn(code, result.stderr)

    def expect_refusal(self, fragment, *flags, **options):
        server = recurve.Server(self.path("refused"), flags=flags, **options)
        self.addCleanup(server.process.kill)
        self.assertEqual(server.wait(), 1)
        self.assertIn(fragment, server.log())

    def test_tls_and_tokens_beyond_loopback(self):
        server = self.start(*self.tls, *self.tokens, listen="0.0.0.0:0")
        config = recurve.write(self.folder, "config.textproto", CONFIG)
        ca = ["--tls_ca", self.path("ca.pem")]
        as_operator = [*ca, "--token_file", self.operator]
        server.call("create", "lm", "--config", config, *as_operator)
        server.call("predict", "lm", "--tokens", "1,2,3", *as_operator)
        models = server.call("models", *ca, "--token_file", self.reader)
        self.assertEqual([model["name"] for model in models["models"]], ["models/lm"])
        self.assertIn("SERVING", server.run("health", *ca).stdout)
        self.expect(server, "UNAUTHENTICATED", "models", *ca)
        self.expect(server, "needs the scope admin", "delete", "lm", *ca,
                    "--token_file", self.reader)
        self.expect(server, "UNAVAILABLE", "models", "--timeout", "5")  # no TLS

    def test_a_token_in_the_environment(self):
        server = self.start(*self.tokens)
        environment = {**os.environ, "RECURVE_TOKEN": "reader-0123456789abcd"}
        self.assertEqual(server.run("models", env=environment).returncode, 0)
        self.expect(server, "UNAUTHENTICATED", "models",
                    env={**os.environ, "RECURVE_TOKEN": "nobody-0123456789abcd"})

    def test_certificates_of_clients(self):
        server = self.start(*self.tls, "--tls_client_ca", self.path("ca.pem"),
                            listen="0.0.0.0:0")
        ca = ["--tls_ca", self.path("ca.pem")]
        shown = ["--tls_cert", self.path("client.pem"), "--tls_key", self.path("client.key")]
        server.call("models", *ca, *shown)
        self.expect(server, "UNAVAILABLE", "models", "--timeout", "5", *ca)

    def test_beyond_loopback_only_when_told_so(self):
        self.expect_refusal("--allow_insecure", listen="0.0.0.0:0")
        self.expect_refusal("--allow_insecure", *self.tls, listen="0.0.0.0:0")
        self.expect_refusal("--allow_insecure", *self.tokens, listen="0.0.0.0:0")
        self.start("--allow_insecure", listen="0.0.0.0:0").call("models")

    def test_files_that_are_wrong(self):
        self.expect_refusal("--tls_key: " + self.path("client.key"), "--tls_certificate",
                            self.path("server.pem"), "--tls_key", self.path("client.key"))
        self.expect_refusal("--tokens_file", "--tokens_file", self.path("absent"))
        result = recurve.run("models", "--token_file", self.path("absent"))
        self.assertEqual(result.returncode, 1)
        self.assertIn(self.path("absent"), result.stderr)


if __name__ == "__main__":
    junit.main()
