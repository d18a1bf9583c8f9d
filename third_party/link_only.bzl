"""Libraries that are linked and not compiled against.

    link_only(name = "gpus_implementation", dep = select({...: ":with_cuda", ...}))

What depends on it gets the dep's code without its headers, definitions and
flags, so that the dep may differ between configurations and nothing that
depends on it is compiled anew.
"""

def _link_only_impl(ctx):
    return [CcInfo(linking_context = ctx.attr.dep[CcInfo].linking_context)]

link_only = rule(
    implementation = _link_only_impl,
    attrs = {"dep": attr.label(providers = [CcInfo], mandatory = True)},
)
