// Graphs: what was captured, replayed as one operation of a stream.
#include <algorithm>
#include <memory>

#include "kernels/cuda/emulation/api_call.h"
#include "kernels/cuda/emulation/capture.h"
#include "kernels/cuda/emulation/order.h"
#include "kernels/cuda/emulation/stream.h"

struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
  recurve::cuda::emulation::OperationPointer last_launch;
};

namespace recurve::cuda::emulation {
namespace {

// Runs the nodes in an order of chance that respects what each one follows.
void RunNodes(const CUgraph_st& graph) {
  std::vector<int> left(graph.nodes.size());
  for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<int>(i);
  std::vector<bool> done(graph.nodes.size());
  while (!left.empty()) {
    std::vector<size_t> ready;  // places in `left`
    for (size_t i = 0; i < left.size() && ready.size() < 8; ++i) {
      const std::vector<int>& after = graph.nodes[left[i]].after;
      if (std::all_of(after.begin(), after.end(),
                      [&](int node) { return done[node]; })) {
        ready.push_back(i);
      }
    }
    size_t place = ready[Draw(ready.size())];
    RunWork(graph.nodes[left[place]].work);
    done[left[place]] = true;
    left.erase(left.begin() + place);
  }
}

Work LaunchOf(std::shared_ptr<const CUgraph_st> graph, int device) {
  Work work;
  work.name = "a graph";
  work.device = device;
  for (const CUgraphNode_st& node : graph->nodes) {
    work.host_uses.insert(work.host_uses.end(), node.work.host_uses.begin(),
                          node.work.host_uses.end());
  }
  work.run = [graph = std::move(graph)] { RunNodes(*graph); };
  return work;
}

cudaError_t LaunchGraph(CUgraphExec_st& executable, cudaStream_t handle) {
  CUstream_st* stream = FindStream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) return cudaErrorNotSupported;
  // Launches of one executable graph run one after the other.
  if (executable.last_launch != nullptr) {
    WaitFor(stream, executable.last_launch);
  }
  cudaError_t error =
      Submit(stream, LaunchOf(executable.graph, stream->device));
  if (error == cudaSuccess) executable.last_launch = stream->last;
  return error;
}

}  // namespace
}  // namespace recurve::cuda::emulation

using namespace recurve::cuda::emulation;

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                              size_t* count) {
  return ApiCall([&] {
    if (graph == nullptr || count == nullptr) return cudaErrorInvalidValue;
    if (nodes != nullptr) {
      for (size_t i = 0; i < std::min(*count, graph->nodes.size()); ++i) {
        nodes[i] = &graph->nodes[i];
      }
    }
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  return ApiCall([&] {
    if (graph == nullptr) return cudaErrorInvalidValue;
    *executable =
        new CUgraphExec_st{std::make_shared<CUgraph_st>(*graph), nullptr};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t) {
  return ApiCall([&] {
    return executable == nullptr ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return ApiCall([&] {
    return executable == nullptr ? cudaErrorInvalidValue
                                 : LaunchGraph(*executable, stream);
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return ApiCall([&] {
    if (graph == nullptr) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}

// Work that was launched keeps the graph until it has run.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return ApiCall([&] {
    if (executable == nullptr) return cudaErrorInvalidValue;
    delete executable;
    return cudaSuccess;
  });
}
