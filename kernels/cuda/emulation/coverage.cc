#include "kernels/cuda/emulation/coverage.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
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

std::string Demangle(const char* mangled) {
  int status;
  char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name(text != nullptr ? text : mangled);
  std::free(text);
  return name;
}

// Of "Template<&(void a::Kernel<float, 4>(a::Parameters<float>))>" or
// "Template<&(a::Kernel(a::Parameters))>": what stands before the parameters.
std::string NameOfKernel(const char* mangled) {
  std::string text = Demangle(mangled);
  Remove("(anonymous namespace)::", &text);
  text.erase(0, text.find('&') + 1);
  if (text.starts_with('(')) text.erase(0, 1);
  if (text.starts_with("void ")) text.erase(0, 5);
  int depth = 0;
  size_t end = 0;
  for (; end < text.size() && (depth > 0 || text[end] != '('); ++end) {
    depth += (text[end] == '<') - (text[end] == '>');
  }
  return text.substr(0, end);
}

std::string WithoutArguments(const std::string& name) {
  return name.substr(0, name.find('<'));
}

}  // namespace

int RegisterKernel(const std::type_info& type) {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  registry.kernels.push_back({NameOfKernel(type.name())});
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
