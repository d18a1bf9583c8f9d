"""Calls a Recurve server with what it says about itself and nothing else: no
generated code, no .proto files. Prints one JSON object.

reflection_client.py ADDRESS MODEL"""

import json
import struct
import sys

from google.protobuf import descriptor_pool
from google.protobuf import json_format
from google.protobuf import message_factory
import grpc
from grpc_reflection.v1alpha import proto_reflection_descriptor_database

PACKAGE = "recurve.v1."


class Caller:

    def __init__(self, channel):
        self._channel = channel
        self._database = (
            proto_reflection_descriptor_database.ProtoReflectionDescriptorDatabase(channel))
        self._pool = descriptor_pool.DescriptorPool(self._database)

    def services(self):
        return sorted(self._database.get_services())

    def service(self, name):
        return self._pool.FindServiceByName(name)

    def methods(self, service):
        return [method.name for method in self.service(service).methods]

    def call(self, service, method, **fields):
        descriptor = self.service(PACKAGE + service).methods_by_name[method]
        request = message_factory.GetMessageClass(descriptor.input_type)()
        json_format.ParseDict(fields, request)
        respond = self._channel.unary_unary(
            "/%s%s/%s" % (PACKAGE, service, method),
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_factory.GetMessageClass(
                descriptor.output_type).FromString)
        return respond(request, timeout=240)

    def predict(self, model, tokens, state=""):
        """(logits, state as base64 text) of one sequence."""
        response = self.call(
            "Inference", "Predict", model=model, want_logits=True, want_state=True, state=state,
            batch={"cu_seqlens": [0, len(tokens)], "tokens": tokens})
        logits = struct.unpack("<%df" % (response.rows * response.columns), response.logits)
        return logits, json_format.MessageToDict(response)["state"]

    def error(self, service, method, **fields):
        try:
            self.call(service, method, **fields)
        except grpc.RpcError as error:
            return {"code": error.code().name, "details": error.details()}
        return None


def main():
    address, model = sys.argv[1:]
    tokens = [5, 1, 40, 72, 0, 13, 13, 2]
    with grpc.insecure_channel(address) as channel:
        caller = Caller(channel)
        whole, whole_state = caller.predict(model, tokens)
        first, state = caller.predict(model, tokens[:3])
        second, split_state = caller.predict(model, tokens[3:], state)
        models = caller.call("Models", "ListModels").models
        json.dump({
            "services": caller.services(),
            "methods": {name: caller.methods(name) for name in caller.services()},
            "models": [listed.name for listed in models],
            "columns": len(whole) / len(tokens),
            "split_is_whole": [first + second == whole, split_state == whole_state],
            "error": caller.error("Models", "GetModel", name="models/absent"),
        }, sys.stdout)


if __name__ == "__main__":
    main()
