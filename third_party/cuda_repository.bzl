"""The CUDA toolkit of the system, as a repository.

    cuda_repository(name = "cuda")

makes, of the toolkit in $CUDA_HOME, else in /usr/local/cuda, else of the nvcc
on the path:

    @cuda//:nvcc       the compiler, a tool for actions
    @cuda//:runtime    headers and the static runtime
    @cuda//:cublasLt   @cuda//:nccl

Without a toolkit all of them are there too, and whatever uses them fails to
build with a message that says so. The driver's library (-lcuda) is not among
them: a program linked to it does not start where there is no driver.
"""

_NO_TOOLKIT = "no CUDA toolkit in CUDA_HOME, in /usr/local/cuda or around an nvcc of the path. " + \
              "Install CUDA 13 or name its folder in CUDA_HOME; builds without --config=cuda need none."

# A few of the toolkit's thousands of headers, so that actions have few inputs.
_RUNTIME = """
cc_library(
    name = "runtime",
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/**",
        "include/nv/**",
    ]),
    includes = ["include"],
    linkopts = ["-L{folder}", "-lcudart_static", "-ldl", "-lrt", "-lpthread"],
)
"""

# Linked as needed, and found again at run time.
_SHARED_LIBRARY = """
cc_library(
    name = "{name}",
    linkopts = [
        "-L{folder}",
        "-Wl,-rpath,{folder}",
        "-Wl,--push-state,--as-needed,-l{name},--pop-state",
    ],
    deps = [":runtime"],
)
"""

_MISSING_LIBRARY = """
cc_library(
    name = "{name}",
    hdrs = ["missing_{name}.h"],
)

genrule(
    name = "missing_{name}",
    outs = ["missing_{name}.h"],
    cmd = "echo '{why}' >&2; exit 1",
)
"""

def _exists(ctx, path):
    return ctx.path(path).exists

def _is_toolkit(ctx, home):
    # A lone nvcc may be a script that calls another.
    return _exists(ctx, home + "/bin/nvcc") and _exists(ctx, home + "/include/cuda_runtime.h")

def _find_home(ctx):
    """The toolkit's folder, or None."""
    nvcc = ctx.which("nvcc")
    for home in [
        ctx.os.environ.get("CUDA_HOME"),
        "/usr/local/cuda",
        str(nvcc.realpath.dirname.dirname) if nvcc else None,
    ]:
        if home and _is_toolkit(ctx, home):
            return home
    return None

def _library(ctx, name, folders):
    """The library in the first of the folders that has it."""
    for folder in folders:
        if _exists(ctx, "%s/lib%s.so" % (folder, name)):
            return _SHARED_LIBRARY.format(name = name, folder = folder)
    why = "no lib%s.so in %s" % (name, ", ".join(folders))
    return _MISSING_LIBRARY.format(name = name, why = why)

def _toolkit(ctx, home):
    folder = home + ("/lib64" if _exists(ctx, home + "/lib64") else "/lib")

    # NVIDIA's packages put NCCL among the system's libraries.
    return _RUNTIME.format(folder = folder) + \
           _library(ctx, "cublasLt", [folder]) + \
           _library(ctx, "nccl", [folder, "/usr/lib/x86_64-linux-gnu", "/usr/lib64"])

def _nvcc(ctx, home):
    if not home:
        return "echo '%s' >&2; exit 1" % _NO_TOOLKIT
    nvcc = home + "/bin/nvcc"

    # With its version, so that another one compiles everything anew.
    version = ctx.execute([nvcc, "--version"]).stdout.strip().split("\n")[-1]
    return "exec '%s' \"$@\"  # %s" % (nvcc, version)

def _cuda_repository_impl(ctx):
    home = _find_home(ctx)
    ctx.file("nvcc", "#!/bin/sh\n%s\n" % _nvcc(ctx, home), executable = True)
    build = "package(default_visibility = [\"//visibility:public\"])\n\nexports_files([\"nvcc\"])\n"
    if home:
        ctx.symlink(home + "/include", "include")
        build += _toolkit(ctx, home)
    else:
        for name in ["runtime", "cublasLt", "nccl"]:
            build += _MISSING_LIBRARY.format(name = name, why = _NO_TOOLKIT)
    ctx.file("BUILD.bazel", build)

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    configure = True,
    local = True,
    environ = ["CUDA_HOME", "PATH"],
)
