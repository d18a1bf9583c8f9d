"""CUDA sources. With --config=cuda nvcc compiles them; the emulation of
kernels/cuda/emulation runs the same sources on the host, in every build.
"""

# --- For a GPU ---

def needs_cuda():
    """For target_compatible_with: skipped but in builds with --config=cuda."""
    return select({
        "//third_party:cuda": [],
        "//conditions:default": ["//third_party:needs_cuda"],
    })

def needs_emulation_alone():
    """For target_compatible_with: skipped in builds with --config=cuda, whose
    engine brings the real backend, beside which the emulated one cannot be."""
    return select({
        "//third_party:cuda": ["//third_party:needs_emulation_alone"],
        "//conditions:default": [],
    })

# Machine code for each, and portable code of the last for what comes later.
_TARGETS = select({
    "//third_party:all_cuda_targets": ["80", "90", "100", "120"],
    "//conditions:default": ["90"],
})

_NVCC_FLAGS = [
    "-c",
    "-std=c++20",
    "-O3",
    "-ccbin=g++",
    "--expt-relaxed-constexpr",
    "-Xcompiler=-fPIC,-Wall,-Wextra",
    "-Werror=all-warnings",
    "-Xptxas=-v",
    "-I.",
    "-t=2",
]

def _nvcc_object_impl(ctx):
    object = ctx.actions.declare_file(ctx.label.name + ".pic.o")
    report = ctx.actions.declare_file(ctx.label.name + ".ptxas")
    headers = depset(
        ctx.files.hdrs,
        transitive = [dep[CcInfo].compilation_context.headers for dep in ctx.attr.deps],
    )
    arguments = ctx.actions.args()
    arguments.add_all(_NVCC_FLAGS)
    for target in ctx.attr.targets:
        arguments.add("-gencode=arch=compute_%s,code=sm_%s" % (target, target))
    arguments.add("-gencode=arch=compute_%s,code=compute_%s" % (ctx.attr.targets[-1], ctx.attr.targets[-1]))
    arguments.add("-o", object)
    arguments.add(ctx.file.src)
    ctx.actions.run_shell(
        outputs = [object, report],
        inputs = depset([ctx.file.src], transitive = [headers]),
        tools = [ctx.executable._nvcc],
        command = "%s \"$@\" 2>%s || { cat %s >&2; exit 1; }" %
                  (ctx.executable._nvcc.path, report.path, report.path),
        arguments = [arguments],
        mnemonic = "CudaCompile",
        progress_message = "nvcc %s" % ctx.file.src.short_path,
        use_default_shell_env = True,
    )
    return [
        DefaultInfo(files = depset([object])),
        OutputGroupInfo(ptxas = depset([report])),
    ]

_nvcc_object = rule(
    implementation = _nvcc_object_impl,
    attrs = {
        "src": attr.label(allow_single_file = [".cu"], mandatory = True),
        "hdrs": attr.label_list(allow_files = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "targets": attr.string_list(mandatory = True),
        "_nvcc": attr.label(
            default = "@cuda//:nvcc",
            allow_single_file = True,
            executable = True,
            cfg = "host",
        ),
    },
)

def cuda_library(name, srcs, hdrs = [], deps = [], testonly = False, visibility = None):
    """Kernels and their launchers, of .cu files, as a cc_library.

    Skipped but in builds with --config=cuda. What nvcc reads of a dep is its
    headers: includes start at the root. NAME_ptxas are ptxas's reports of
    registers, shared memory and spills (tests/cuda/ptxas_table.py).
    """
    objects = []
    for src in srcs:
        objects.append("%s_%s" % (name, src[:-len(".cu")]))
        _nvcc_object(
            name = objects[-1],
            src = src,
            hdrs = hdrs,
            targets = _TARGETS,
            testonly = testonly,
            deps = deps,
            target_compatible_with = needs_cuda(),
            visibility = ["//visibility:private"],
        )
    native.filegroup(
        name = name + "_ptxas",
        srcs = objects,
        output_group = "ptxas",
        testonly = testonly,
        visibility = visibility,
    )
    native.cc_library(
        name = name,
        srcs = objects,
        hdrs = hdrs,
        testonly = testonly,
        target_compatible_with = needs_cuda(),
        deps = deps + ["@cuda//:runtime"],
        visibility = visibility,
    )

# --- On the emulation ---

# Misaligned vectors and indices outside arrays trap (SIGILL) in every build.
_EMULATION_COPTS = [
    "-fsanitize=alignment,bounds",
    "-fsanitize-undefined-trap-on-error",
    # nvcc's, which the host's compiler skips.
    "-Wno-unknown-pragmas",
]

def emulated_cuda_library(name, srcs, hdrs = [], deps = [], copts = [], visibility = None):
    """Kernels and their launchers, of .cu files, run on the host: for tests.

    Every kernel that the files instantiate is in a test that depends on this,
    called or not (kernels/cuda/emulation/coverage.h).
    """
    generated = []
    for src in srcs:
        generated.append("%s_%s.cc" % (name, src[:-len(".cu")]))
        native.genrule(
            name = generated[-1] + "_gen",
            outs = [generated[-1]],
            cmd = "echo '#include \"%s/%s\"' > $@" % (native.package_name(), src),
            testonly = True,
            visibility = ["//visibility:private"],
        )
    native.cc_library(
        name = name,
        srcs = generated,
        hdrs = hdrs,
        copts = _EMULATION_COPTS + copts,
        testonly = True,
        textual_hdrs = srcs,
        alwayslink = True,
        deps = deps + ["//kernels/cuda/emulation:cuda_runtime"],
        visibility = visibility,
    )
