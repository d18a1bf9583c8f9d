"""Calls a Recurve server by PyPI's tritonclient[grpc], as it is. Prints one JSON
object: what each of the functions named see_... saw.

tritonclient_client.py ADDRESS"""

import asyncio
import json
import queue
import sys

import grpc
import numpy
import reflection_client
import tritonclient.grpc
from tritonclient.grpc import model_config_pb2
from tritonclient.grpc import service_pb2
import tritonclient.grpc.aio
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory

PATIENCE_SECONDS = 200
VOCABULARY = 73

_random = numpy.random.default_rng(1)


def tensor(name, array, datatype):
    made = tritonclient.grpc.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


def tokens(*sequences, dtype=numpy.int32):
    """The inputs for these sequences, padded, with their lengths."""
    steps = max(len(sequence) for sequence in sequences)
    padded = numpy.zeros((len(sequences), steps), dtype)
    for row, sequence in zip(padded, sequences):
        row[:len(sequence)] = sequence
    lengths = numpy.array([len(sequence) for sequence in sequences], numpy.int32)
    name = {numpy.int32: "INT32", numpy.int64: "INT64"}[dtype]
    return [tensor("tokens", padded, name), tensor("lengths", lengths, "INT32")]


def features(array):
    return [tensor("features", array.astype(numpy.float32), "FP32")]


def outputs(*names):
    return [tritonclient.grpc.InferRequestedOutput(name) for name in names]


def some_tokens(count):
    return _random.integers(0, VOCABULARY, count).tolist()


def error_of(call, *arguments, **options):
    """[code, message] of the error that a call ends in."""
    try:
        call(*arguments, **options)
    except InferenceServerException as error:
        return [error.status(), error.message()]
    return None


# --- What there is ---


def see_server(client):
    metadata = client.get_server_metadata(as_json=True)
    return {"live": client.is_server_live(), "ready": client.is_server_ready(),
            "name": metadata["name"], "extensions": metadata["extensions"]}


def see_contract(client, caller):
    """Fields of ours that the client's own messages lack, or have otherwise."""

    def same(ours, theirs):
        return (theirs is not None and ours.number == theirs.number
                and ours.type == theirs.type and ours.is_repeated == theirs.is_repeated)

    def differences(ours, theirs):
        if theirs is None:
            return [ours.full_name]
        different = [
            field.full_name for field in ours.fields
            if not same(field, theirs.fields_by_name.get(field.name))]
        for nested in ours.nested_types:
            different += differences(nested, theirs.nested_types_by_name.get(nested.name))
        return different

    service = caller.service("inference.GRPCInferenceService")
    theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    files = {method.input_type.file for method in service.methods}
    different = []
    for file in files:
        for name, message in file.message_types_by_name.items():
            different += differences(
                message, service_pb2.DESCRIPTOR.message_types_by_name.get(
                    name, model_config_pb2.DESCRIPTOR.message_types_by_name.get(name)))
    return {"different": different,
            "messages": sum(len(file.message_types_by_name) for file in files),
            "methods": sorted(method.name for method in service.methods),
            "their_methods": sorted(method.name for method in theirs.methods)}


def see_models(client):
    return {
        "ready": [client.is_model_ready("lm"), client.is_model_ready("lm", "2"),
                  client.is_model_ready("lm", "3"), client.is_model_ready("absent")],
        "metadata": client.get_model_metadata("lm", as_json=True),
        "feature_metadata": client.get_model_metadata("features", as_json=True),
        "config": client.get_model_config("lm", as_json=True)["config"],
        "plain_config": client.get_model_config(
            "lm", headers={"recurve-scheduling": "dynamic"}, as_json=True)["config"],
        "unknown": error_of(client.get_model_metadata, "absent"),
    }


# --- Inference ---


def see_infer(client, caller):
    first, second = some_tokens(9), some_tokens(5)
    result = client.infer("lm", tokens(first, second), request_id="r",
                          outputs=outputs("logits", "classes"))
    logits = result.as_numpy("logits")
    native = [numpy.array(caller.predict("models/lm", sequence)[0], numpy.float32)
              for sequence in (first, second)]
    wide = client.infer("lm", tokens(first, second, dtype=numpy.int64))
    return {
        "id": result.get_response().id,
        "shapes": [list(logits.shape), list(result.as_numpy("classes").shape)],
        "as_predict": (logits[0].tobytes() == native[0].tobytes()
                       and logits[1, :5].tobytes() == native[1].tobytes()),
        "padding_is_zero": not logits[1, 5:].any(),
        "classes_are_largest": (
            logits[0].argmax(axis=1).tolist() == result.as_numpy("classes")[0].tolist()),
        "int64_as_int32": wide.as_numpy("logits").tobytes() == logits.tobytes(),
        "probabilities": float(wide.as_numpy("probabilities")[0].sum(axis=1).max()),
    }


def see_feature_infer(client):
    rows = _random.standard_normal((3, 7, 4)).astype(numpy.float16)
    full = client.infer("features", features(rows)).as_numpy("logits")
    half = client.infer("features", [tensor("features", rows, "FP16")]).as_numpy("logits")
    return {"shape": list(full.shape), "half_as_full": full.tobytes() == half.tobytes()}


def see_further_outputs(client):
    result = client.infer("lm", tokens(some_tokens(4)), parameters={"top_k": 3},
                          outputs=outputs("logits", "probabilities", "hidden", "top_classes",
                                          "top_probabilities"))
    probabilities = result.as_numpy("probabilities")[0]
    top = result.as_numpy("top_classes")[0]
    return {
        "hidden": list(result.as_numpy("hidden").shape),
        "top": list(top.shape),
        "top_are_largest": (numpy.sort(probabilities, axis=1)[:, :-4:-1].tolist()
                            == result.as_numpy("top_probabilities")[0].tolist()),
        "needs_top_k": error_of(client.infer, "lm", tokens([1]),
                                outputs=outputs("top_classes")),
    }


def see_classification(client):
    wanted = [tritonclient.grpc.InferRequestedOutput("logits", class_count=2)]
    result = client.infer("lm", tokens([1, 2, 3], [4]), outputs=wanted).as_numpy("logits")
    logits = client.infer("lm", tokens([1, 2, 3], [4])).as_numpy("logits")
    value, index, label = result[0, 0, 0].decode().split(":", 2)
    return {"shape": list(result.shape),
            "largest": int(index) == int(logits[0, 0].argmax()),
            "value": abs(float(value) - float(logits[0, 0].max())) < 1e-5,
            "label": label, "index": int(index),
            "padding": result[1, 2, 0].decode()}


def see_versions(client, caller):
    caller.call("Models", "SetModelAlias", name="models/lm/aliases/stable",
                model_version="models/lm/versions/1")
    versions = [client.infer("lm", tokens([1]), model_version=version).get_response()
                for version in ("", "1", "2", "stable")]
    return {"answered": [version.model_version for version in versions],
            "unknown": [error_of(client.infer, "lm", tokens([1]), model_version=version)
                        for version in ("9", "canary")]}


def see_async(client):
    sequences = [some_tokens(length) for length in range(1, 33)]
    answers = queue.Queue()
    for sequence in sequences:
        client.async_infer(
            "lm", tokens(sequence),
            lambda result, error, length=len(sequence): answers.put((length, result, error)))
    equal = []
    for _ in sequences:
        length, result, error = answers.get(timeout=PATIENCE_SECONDS)
        if error is not None:
            raise error
        expected = client.infer("lm", tokens(sequences[length - 1]))
        equal.append(bool((result.as_numpy("logits") == expected.as_numpy("logits")).all()))
    return {"equal": all(equal), "count": len(equal)}


def see_aio(address):

    async def run():
        async with tritonclient.grpc.aio.InferenceServerClient(address) as client:
            results = await asyncio.gather(
                *(client.infer("lm", tokens(some_tokens(length))) for length in range(1, 17)))

            async def requests():
                for length in (3, 1, 2):
                    yield {"model_name": "lm", "inputs": tokens(some_tokens(length))}

            streamed = []
            async for result, error in client.stream_infer(requests()):
                streamed.append(result.as_numpy("classes").shape[1] if error is None
                                else str(error))
            return {"steps": [result.as_numpy("classes").shape[1] for result in results],
                    "streamed": streamed,
                    "live": await client.is_server_live()}

    return asyncio.run(run())


def see_large_messages(client):
    sequence = some_tokens(30000)  # 8.8 MB of logits
    plain = client.infer("lm", tokens(sequence), outputs=outputs("logits"))
    packed = client.infer("lm", tokens(sequence), outputs=outputs("logits"),
                          compression_algorithm="gzip")
    return {"bytes": plain.as_numpy("logits").nbytes,
            "compressed_request_as_plain":
                plain.as_numpy("logits").tobytes() == packed.as_numpy("logits").tobytes()}


def see_errors(client):

    def infer(inputs, **options):
        return error_of(client.infer, "lm", inputs, **options)

    return {
        "unknown_model": error_of(client.infer, "absent", tokens([1])),
        "unknown_input": infer([tensor("ids", numpy.zeros((1, 1), numpy.int32), "INT32")]),
        "token_out_of_range": infer(tokens([1, VOCABULARY])),
        "wrong_type": infer([tensor("tokens", numpy.zeros((1, 1), numpy.float32), "FP32")]),
        "wrong_rank": infer([tensor("tokens", numpy.zeros(1, numpy.int32), "INT32")]),
        "length_too_long": infer([
            tensor("tokens", numpy.zeros((1, 2), numpy.int32), "INT32"),
            tensor("lengths", numpy.array([3], numpy.int32), "INT32")]),
        "unknown_output": infer(tokens([1]), outputs=outputs("scores")),
        "too_late": infer(tokens(some_tokens(200000)), timeout=1, outputs=outputs("classes")),
    }


# --- Streams ---


class Stream:
    """A stream of a client; its answers in their order."""

    def __init__(self, client, **options):
        self._client = client
        self._answers = queue.Queue()
        client.start_stream(lambda result, error: self._answers.put((result, error)), **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._client.stop_stream()

    def send(self, *arguments, **options):
        self._client.async_stream_infer(*arguments, **options)

    def answer(self):
        return self._answers.get(timeout=PATIENCE_SECONDS)


def see_stream(client):
    with Stream(client) as stream:
        for number in range(100):
            model = "absent" if number % 10 == 3 else "lm"
            stream.send(model, tokens(some_tokens(number + 1)), request_id=str(number),
                        enable_empty_final_response=number == 7)
        answers = [stream.answer() for _ in range(100)]
    results = [result for result, error in answers if error is None]
    return {
        "ids": [result.get_response().id for result in results],
        "steps": [result.as_numpy("classes").shape[1] for result in results],
        "errors": [error.message() for _, error in answers if error is not None],
        "final": [result.get_response().id for result in results
                  if "triton_final_response" in result.get_response().parameters],
    }


def see_stream_with_grpc_errors(client):
    with Stream(client, headers={"triton_grpc_error": "true"}) as stream:
        stream.send("lm", tokens([1, 2]))
        stream.send("absent", tokens([1]))
        return {"first": stream.answer()[1] is None, "then": stream.answer()[1].status()}


def chunked(sequence):
    """Pieces of 1 to 6 rows, the whole in their order."""
    pieces = []
    while len(sequence):
        count = int(_random.integers(1, 7))
        pieces.append(sequence[:count])
        sequence = sequence[count:]
    return pieces


def sequences_equal_offline(client, model, sequences, inputs_of, id_of):
    """Many sequences in pieces, interleaved; each must have the bits of one
    request with all of it."""
    pieces = [chunked(sequence) for sequence in sequences]
    sent = []
    with Stream(client) as stream:
        for turn in range(max(len(parts) for parts in pieces)):
            for number in _random.permutation(len(pieces)):
                parts = pieces[number]
                if turn < len(parts):
                    stream.send(model, inputs_of(parts[turn]), sequence_id=id_of(int(number)),
                                sequence_start=turn == 0, sequence_end=turn + 1 == len(parts),
                                outputs=outputs("logits"))
                    sent.append(number)
        logits = [[] for _ in pieces]
        for number in sent:
            result, error = stream.answer()
            if error is not None:
                return error.message()
            logits[number].append(result.as_numpy("logits"))
    for sequence, parts in zip(sequences, logits):
        whole = client.infer(model, inputs_of(sequence), outputs=outputs("logits"))
        if numpy.concatenate(parts, axis=1).tobytes() != whole.as_numpy("logits").tobytes():
            return "a sequence of %d rows differs" % len(sequence)
    return "equal"


def see_sequences(client):
    lengths = _random.integers(1, 40, 60)

    def feature_inputs(rows):
        return features(numpy.asarray(rows)[numpy.newaxis])

    return {
        "tokens": sequences_equal_offline(
            client, "lm", [some_tokens(length) for length in lengths], tokens,
            lambda number: number + 1),
        "string_ids": sequences_equal_offline(
            client, "lm", [some_tokens(length) for length in lengths[:20]], tokens,
            lambda number: "client/%d" % number),
        "features": sequences_equal_offline(
            client, "features", [_random.standard_normal((length, 4)) for length in lengths],
            feature_inputs, lambda number: number + 1),
    }


def see_sequence_rules(client):

    def step(sequence, token, **flags):
        return client.infer("lm", tokens([token]), sequence_id=sequence, **flags)

    def logits(result):
        return result.as_numpy("logits")[0].tobytes()

    alone = logits(client.infer("lm", tokens([5])))
    first = logits(step(901, 5, sequence_start=True))
    second = logits(step(901, 5))
    again = logits(step(901, 5, sequence_start=True, sequence_end=True))
    return {
        "starts_from_zeros": first == alone,
        "goes_on": second != alone,
        "start_begins_anew": again == alone,
        "ended": error_of(step, 901, 5),
        "without_start": error_of(step, 902, 5),
        "one_request": logits(step(903, 5, sequence_start=True, sequence_end=True)) == alone,
        "batch_of_two": error_of(client.infer, "lm", tokens([1], [2]), sequence_id=904,
                                 sequence_start=True),
        "bidirectional": error_of(client.infer, "tagger", tokens([1]), sequence_id=905,
                                  sequence_start=True),
    }


# --- Model control, statistics, settings ---


def see_model_control(client):
    before = client.get_model_repository_index(as_json=True)["models"]
    client.unload_model("spare")
    unloaded = [model for model in client.get_model_repository_index(as_json=True)["models"]
                if model["name"] == "spare"]
    refused = error_of(client.infer, "spare", tokens([1]))
    ready = client.is_model_ready("spare")
    client.load_model("spare")
    return {
        "index": sorted([model["name"], model["version"], model["state"]] for model in before),
        "unloaded": unloaded[0]["state"], "refused": refused,
        "ready": [ready, client.is_model_ready("spare")],
        "answered": client.infer("spare", tokens([1])).as_numpy("classes").shape[0],
        "override": error_of(client.load_model, "spare", config="{}"),
    }


def see_statistics(client):

    def of_model():
        statistics = client.get_inference_statistics("lm", "1", as_json=True)
        return statistics["model_stats"][0]

    before = of_model()
    for _ in range(5):
        client.infer("lm", tokens([1, 2, 3], [4]), model_version="1")
    after = of_model()

    def count(statistics, path):
        for name in path:
            statistics = statistics.get(name, {})
        return int(statistics or 0)

    def grew(*path):
        return count(after, path) - count(before, path)

    return {
        "inferences": grew("inference_count"), "passes": grew("execution_count"),
        "succeeded": grew("inference_stats", "success", "count"),
        "time": grew("inference_stats", "success", "ns") > 0,
        "compute_time": grew("inference_stats", "compute_infer", "ns") > 0,
        "all": sorted({model["name"] for model in
                       client.get_inference_statistics(as_json=True)["model_stats"]}),
        "unknown": error_of(client.get_inference_statistics, "absent"),
    }


def see_settings(client):
    return {
        "trace": client.get_trace_settings(as_json=True)["settings"],
        "trace_set": error_of(client.update_trace_settings,
                              settings={"trace_level": ["TIMESTAMPS"]}),
        "log": client.get_log_settings(as_json=True)["settings"],
        "log_set": error_of(client.update_log_settings, {"log_verbose_level": 1}),
    }


# --- Shared memory ---


def see_shared_memory(client):
    array = numpy.array([some_tokens(6)], numpy.int32)
    out_bytes = 6 * VOCABULARY * 4
    handle = shared_memory.create_shared_memory_region(
        "region", "/recurve_tritonclient_test", 64 + out_bytes)
    try:
        shared_memory.set_shared_memory_region(handle, [array], offset=16)
        client.register_system_shared_memory(
            "region", "/recurve_tritonclient_test", 64 + out_bytes)
        status = client.get_system_shared_memory_status(as_json=True)["regions"]
        inputs = [tritonclient.grpc.InferInput("tokens", [1, 6], "INT32")]
        inputs[0].set_shared_memory("region", array.nbytes, offset=16)
        wanted = outputs("logits")
        wanted[0].set_shared_memory("region", out_bytes, offset=64)
        result = client.infer("lm", inputs, outputs=wanted)
        output = result.get_output("logits")
        logits = shared_memory.get_contents_as_numpy(
            handle, numpy.float32, list(output.shape), offset=64).copy()
        wanted[0].set_shared_memory("region", out_bytes, offset=65)
        outside = error_of(client.infer, "lm", inputs, outputs=wanted)
        client.unregister_system_shared_memory("region")
        after = error_of(client.infer, "lm", inputs)
    finally:
        shared_memory.destroy_shared_memory_region(handle)
    expected = client.infer("lm", tokens(array[0].tolist())).as_numpy("logits")
    return {
        "status": status, "equal": logits.tobytes() == expected.tobytes(),
        "outside": outside, "after": after,
        "regions_left": client.get_system_shared_memory_status(as_json=True),
        "absent_key": error_of(client.register_system_shared_memory, "x", "/absent", 8),
        "path": error_of(client.register_system_shared_memory, "x", "/../etc/hostname", 8),
        "cuda": client.get_cuda_shared_memory_status(as_json=True),
        "cuda_register": error_of(client.register_cuda_shared_memory, "x", b"AAAA", 0, 8),
    }


def main():
    address = sys.argv[1]
    seen = {}
    with grpc.insecure_channel(address) as channel, \
            tritonclient.grpc.InferenceServerClient(address) as client:
        caller = reflection_client.Caller(channel)
        seen["server"] = see_server(client)
        seen["contract"] = see_contract(client, caller)
        seen["models"] = see_models(client)
        seen["infer"] = see_infer(client, caller)
        seen["feature_infer"] = see_feature_infer(client)
        seen["further_outputs"] = see_further_outputs(client)
        seen["classification"] = see_classification(client)
        seen["versions"] = see_versions(client, caller)
        seen["async"] = see_async(client)
        seen["aio"] = see_aio(address)
        seen["large_messages"] = see_large_messages(client)
        seen["errors"] = see_errors(client)
        seen["stream"] = see_stream(client)
        seen["stream_with_grpc_errors"] = see_stream_with_grpc_errors(client)
        seen["sequences"] = see_sequences(client)
        seen["sequence_rules"] = see_sequence_rules(client)
        seen["model_control"] = see_model_control(client)
        seen["statistics"] = see_statistics(client)
        seen["settings"] = see_settings(client)
        seen["shared_memory"] = see_shared_memory(client)
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
