"""A repository of cc_library targets for libraries installed on the system.

    pkg_config(
        name = "grpc",
        modules = {"grpc++": ["grpc++"]},         # target -> pkg-config modules
        linkopts = {"grpc++_reflection": ["-l…"]}, # target -> flags, for what has no .pc file
        defines = {},                              # target -> preprocessor definitions
        deps = [],                                 # of every target
    )

makes @grpc//:grpc++ and @grpc//:grpc++_reflection. Headers lie in /usr/include,
which the compiler searches anyway and treats as system headers. Libraries are
linked as needed: one that is named but not used costs nothing at run time. With
--define=portable=true they are linked statically, for programs that go to
another machine (tests/gpu/prepare).
"""

def _query(ctx, modules):
    """Flags of the modules: (defines, linkopts), without repetitions."""
    if not modules:
        return [], []
    result = ctx.execute(["pkg-config", "--cflags", "--libs"] + modules)
    if result.return_code != 0:
        fail("pkg-config %s: %s\nRun deploy/install first." % (" ".join(modules), result.stderr))
    defines, linkopts = {}, {}
    for flag in result.stdout.split(" "):
        flag = flag.strip()
        if flag.startswith("-D"):
            defines[flag[2:]] = True
        elif flag.startswith("-l") or flag == "-pthread":
            linkopts[flag] = True
        elif flag.startswith("-I") and not flag.startswith("-I/usr/include"):
            fail("%s: header directory outside /usr/include: %s" % (modules, flag))
    return defines.keys(), linkopts.keys()

def _select_linkopts(linkopts, shared_only):
    """The linkopts attribute, as text."""
    dynamic = ["-Wl,--push-state,--as-needed"] + linkopts + ["-Wl,--pop-state"]
    if not linkopts or shared_only:
        return repr(dynamic if linkopts else [])
    # In a group: static libraries may need each other both ways.
    static = ["-Wl,--push-state,-Bstatic,--start-group"] + linkopts + ["-Wl,--end-group,--pop-state"]
    return "select({%r: %r, %r: %r})" % (
        "@recurve//third_party:portable",
        static,
        "//conditions:default",
        dynamic,
    )

def _pkg_config_impl(ctx):
    targets = {}
    for table in [ctx.attr.modules, ctx.attr.linkopts, ctx.attr.defines]:
        targets.update([(name, True) for name in table])

    build = ["package(default_visibility = [\"//visibility:public\"])"]
    for target in sorted(targets):
        defines, linkopts = _query(ctx, ctx.attr.modules.get(target, []))
        linkopts = ctx.attr.linkopts.get(target, []) + linkopts
        build.append("cc_library(name = %r, defines = %r, linkopts = %s, deps = %r)" % (
            target,
            defines + ctx.attr.defines.get(target, []),
            _select_linkopts(linkopts, ctx.attr.shared_only),
            ctx.attr.deps,
        ))
    ctx.file("BUILD.bazel", "\n".join(build) + "\n")

pkg_config = repository_rule(
    implementation = _pkg_config_impl,
    attrs = {
        "modules": attr.string_list_dict(doc = "target -> pkg-config modules"),
        "linkopts": attr.string_list_dict(doc = "target -> further linker flags"),
        "defines": attr.string_list_dict(doc = "target -> further definitions"),
        "shared_only": attr.bool(doc = "Debian has no static library"),
        "deps": attr.string_list(doc = "labels that every target depends on"),
    },
    configure = True,
    local = True,
    environ = ["PKG_CONFIG_PATH"],
)
