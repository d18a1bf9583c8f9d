"""C++ libraries from .proto files, by the system's protoc.

    proto_cc_library(
        name = "jobs_proto",
        srcs = ["jobs.proto"],
        deps = [":model_proto", "//proto/google/rpc:status_proto"],
        grpc = True,
    )

makes :jobs_proto, the messages ("proto/recurve/v1/jobs.pb.h"), and with grpc
:jobs_proto_grpc, the service stubs ("proto/recurve/v1/jobs.grpc.pb.h"), which
brings the messages along. A .proto file names another by its path from the
repository's root; google/protobuf/*.proto are there without a dep. deps are
other proto_cc_library targets, written :name or //package:name.
"""

def proto_cc_library(name, srcs, deps = [], grpc = False, visibility = None):
    """Messages of srcs as cc_library name; with grpc, stubs as name_grpc."""
    for dep in deps:
        if ":" not in dep:
            fail("write the dep in full, //package:name: " + dep)

    # The sources with all that they import, for protoc in a dependent library.
    native.filegroup(
        name = name + "_srcs",
        srcs = srcs + [dep + "_srcs" for dep in deps],
        visibility = visibility,
    )

    stems = [src[:-len(".proto")] for src in srcs]
    plugin = "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out=$(GENDIR) " if grpc else ""
    suffixes = [".pb.h", ".pb.cc"] + ([".grpc.pb.h", ".grpc.pb.cc"] if grpc else [])
    native.genrule(
        name = name + "_gen",
        srcs = srcs + [dep + "_srcs" for dep in deps],
        outs = [stem + suffix for stem in stems for suffix in suffixes],
        cmd = "/usr/bin/protoc --proto_path=. --cpp_out=$(GENDIR) " + plugin +
              " ".join(["$(location %s)" % src for src in srcs]),
        visibility = ["//visibility:private"],
    )

    native.cc_library(
        name = name,
        srcs = [stem + ".pb.cc" for stem in stems],
        hdrs = [stem + ".pb.h" for stem in stems],
        copts = ["-w"],
        deps = deps + ["@protobuf//:protobuf"],
        visibility = visibility,
    )
    if grpc:
        native.cc_library(
            name = name + "_grpc",
            srcs = [stem + ".grpc.pb.cc" for stem in stems],
            hdrs = [stem + ".grpc.pb.h" for stem in stems],
            copts = ["-w"],
            deps = [name, "@grpc//:grpc++"],
            visibility = visibility,
        )
