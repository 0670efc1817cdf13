// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/interpreter/compiled_kernels.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace troupe::simt {
namespace {

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
const T* at(const std::string& bytes, std::size_t offset, std::size_t count = 1) {
  if (offset > bytes.size() || count * sizeof(T) > bytes.size() - offset) return nullptr;
  return reinterpret_cast<const T*>(bytes.data() + offset);
}

// Local symbols too, which dladdr() does not know: kernels are in unnamed namespaces. "" if it has none
// there.
std::string symbol_in(const std::string& elf, std::uintptr_t offset) {
  const auto* header = at<Elf64_Ehdr>(elf, 0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return "";
  const auto* sections = at<Elf64_Shdr>(elf, header->e_shoff, header->e_shnum);
  for (unsigned i = 0; sections != nullptr && i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) continue;
    const std::size_t count = sections[i].sh_size / sizeof(Elf64_Sym);
    const auto* symbols = at<Elf64_Sym>(elf, sections[i].sh_offset, count);
    const std::size_t names = sections[sections[i].sh_link].sh_offset;
    for (std::size_t s = 0; symbols != nullptr && s < count; ++s) {
      if (symbols[s].st_value != offset || ELF64_ST_TYPE(symbols[s].st_info) != STT_FUNC) continue;
      const auto* name = at<char>(elf, names + symbols[s].st_name);
      return name == nullptr ? "" : name;
    }
  }
  return "";
}

// As short() of machine_code.py: paged_attention_kernel<bf16, 4>.
std::string short_name(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  if (!plain) return "";
  std::string name =
      std::regex_replace(plain.get(), std::regex("\\(anonymous namespace\\)::|troupe::cuda::|\\b__nv_"), "");
  if (name.starts_with("void ")) name.erase(0, 5);
  name = std::regex_replace(name, std::regex("bfloat16"), "bf16");
  name = std::regex_replace(name, std::regex("__half"), "f16");
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += (name[i] == '<') - (name[i] == '>');
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

class Table {
 public:
  static Table& instance() {
    static Table table;
    return table;
  }

  std::optional<CompiledKernel> find(const void* kernel) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = kernels_.try_emplace(kernel);
    if (is_new) place->second = look_up(kernel);
    return place->second;
  }

  void set(const void* kernel, const CompiledKernel& compiled) {
    const std::lock_guard lock(mutex_);
    kernels_[kernel] = compiled;
  }

 private:
  std::optional<CompiledKernel> look_up(const void* kernel) {
    Dl_info library{};
    if (dladdr(kernel, &library) == 0 || library.dli_fname == nullptr) return std::nullopt;
    std::string& elf = files_[library.dli_fname];
    if (elf.empty()) elf = text_of_file(library.dli_fname);
    const auto offset =
        reinterpret_cast<std::uintptr_t>(kernel) - reinterpret_cast<std::uintptr_t>(library.dli_fbase);
    const auto found = table_.find(short_name(symbol_in(elf, offset)));
    if (found == table_.end()) return std::nullopt;
    return CompiledKernel{.registers = found->at("registers"),
                          .static_shared_bytes = found->value("shared", std::size_t{0})};
  }

  std::mutex mutex_;
  std::map<const void*, std::optional<CompiledKernel>> kernels_;
  std::map<std::string, std::string> files_;
  const nlohmann::json table_ = nlohmann::json::parse(text_of_file(TROUPE_MACHINE_CODE)).at("kernels");
};

}  // namespace

std::optional<CompiledKernel> compiled_kernel(const void* kernel) { return Table::instance().find(kernel); }

void set_compiled_kernel(const void* kernel, const CompiledKernel& compiled) {
  Table::instance().set(kernel, compiled);
}

}  // namespace troupe::simt
