// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_library.hpp"

#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <system_error>

#include "gpu/backend_fingerprint.hpp"

namespace troupe {
namespace {

void* symbol_of(void* library, const std::string& path, const char* name) {
  void* symbol = ::dlsym(library, name);
  if (symbol == nullptr) throw std::runtime_error(path + ": is no CUDA backend, it lacks " + name);
  return symbol;
}

void* symbol_of_library(const std::filesystem::path& path, const char* name) {
  // An absolute path: the system's library paths are not searched.
  const std::string file = std::filesystem::absolute(path).string();
  if (!std::filesystem::is_regular_file(file)) throw std::runtime_error(file + ": there is no such library");
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  const auto fingerprint =
      reinterpret_cast<BackendFingerprint>(symbol_of(library, file, kBackendFingerprintSymbol));
  if (fingerprint() != kBackendFingerprint)
    throw std::runtime_error(file + ": is of another build than this program");
  return symbol_of(library, file, name);
}

}  // namespace

std::filesystem::path default_cuda_library() {
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const auto beside = folder / "libtroupe_cuda.so";
  const auto installed = folder.parent_path() / "lib/troupe/libtroupe_cuda.so";
  return !std::filesystem::exists(beside, ignored) && std::filesystem::exists(installed, ignored) ? installed
                                                                                                  : beside;
}

MakeBackend load_cuda_library(const std::filesystem::path& path) {
  return reinterpret_cast<MakeBackend>(symbol_of_library(path, kCudaBackendSymbol));
}

LastGraphKernels load_last_graph_kernels(const std::filesystem::path& path) {
  return reinterpret_cast<LastGraphKernels>(symbol_of_library(path, "troupe_kernels_of_last_graph"));
}

}  // namespace troupe
