#include "kernels/cuda/emulation/coverage.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <string_view>

namespace recurve::cuda::emulation {
namespace {

struct Kernel {
  std::string name;
  bool launched = false;
  bool compared = false;
};

struct Registry {
  std::mutex mutex;
  std::deque<Kernel> kernels;  // names stay where they are
};

Registry& GetRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

void Remove(std::string_view part, std::string* text) {
  for (size_t at; (at = text->find(part)) != std::string::npos;) {
    text->erase(at, part.size());
  }
}

// The value of kKernel in "... [with auto kKernel = NAME; ...]" of g++, or
// "... [kKernel = &NAME]" of clang.
std::string NameOfKernel(std::string_view text) {
  constexpr std::string_view kMarker = "kKernel = ";
  text.remove_prefix(text.find(kMarker) + kMarker.size());
  std::string name(text.substr(0, std::min(text.rfind(']'), text.find(';'))));
  Remove("{anonymous}::", &name);
  Remove("(anonymous namespace)::", &name);
  Remove("&", &name);
  return name;
}

std::string WithoutArguments(const std::string& name) {
  return name.substr(0, name.find('<'));
}

}  // namespace

int RegisterKernel(const char* pretty_function) {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  registry.kernels.push_back({NameOfKernel(pretty_function)});
  return static_cast<int>(registry.kernels.size()) - 1;
}

const char* KernelName(int kernel) {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  return registry.kernels[kernel].name.c_str();
}

void MarkLaunched(int kernel) {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  registry.kernels[kernel].launched = true;
}

void MarkCompared() {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  for (Kernel& kernel : registry.kernels) {
    kernel.compared |= kernel.launched;
    kernel.launched = false;
  }
}

std::vector<std::string> UncoveredKernels() {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  std::vector<std::string> names;
  for (const Kernel& kernel : registry.kernels) {
    if (!kernel.compared) names.push_back(kernel.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::set<std::string> KernelTemplates() {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  std::set<std::string> names;
  for (const Kernel& kernel : registry.kernels) {
    names.insert(WithoutArguments(kernel.name));
  }
  return names;
}

std::set<std::string> CoveredKernelTemplates() {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  std::set<std::string> names;
  for (const Kernel& kernel : registry.kernels) {
    if (kernel.compared) names.insert(WithoutArguments(kernel.name));
  }
  return names;
}

}  // namespace recurve::cuda::emulation
