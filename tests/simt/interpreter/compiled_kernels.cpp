// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/interpreter/compiled_kernels.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
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

// Where a program or library has the names of its functions.
struct Symbols {
  std::vector<Elf64_Sym> symbols;
  std::vector<char> names;
};

// Empty if the file is shorter.
template <typename T>
std::vector<T> read(std::ifstream& file, std::size_t offset, std::size_t count) {
  std::vector<T> values(count);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(T)));
  if (!file) values.clear();
  return values;
}

// Of a program of 70 MB no more than these, as each test is a process.
Symbols symbols_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const auto header = read<Elf64_Ehdr>(file, 0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return {};
  const auto sections = read<Elf64_Shdr>(file, header[0].e_shoff, header[0].e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& names = sections[section.sh_link];
    return {.symbols = read<Elf64_Sym>(file, section.sh_offset, section.sh_size / sizeof(Elf64_Sym)),
            .names = read<char>(file, names.sh_offset, names.sh_size)};
  }
  return {};
}

// Local symbols too, which dladdr() does not know: kernels are in unnamed namespaces. "" if it has none
// there.
std::string symbol_in(const Symbols& of, std::uintptr_t offset) {
  for (const Elf64_Sym& symbol : of.symbols) {
    if (symbol.st_value != offset || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
    return symbol.st_name < of.names.size() ? &of.names[symbol.st_name] : "";
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
    const auto [symbols, is_new] = symbols_.try_emplace(library.dli_fname);
    if (is_new) symbols->second = symbols_of(library.dli_fname);
    const auto offset =
        reinterpret_cast<std::uintptr_t>(kernel) - reinterpret_cast<std::uintptr_t>(library.dli_fbase);
    const auto found = table_.find(short_name(symbol_in(symbols->second, offset)));
    if (found == table_.end()) return std::nullopt;
    return CompiledKernel{.registers = found->at("registers"),
                          .static_shared_bytes = found->value("shared", std::size_t{0})};
  }

  std::mutex mutex_;
  std::map<const void*, std::optional<CompiledKernel>> kernels_;
  std::map<std::string, Symbols> symbols_;  // by file
  const nlohmann::json table_ = nlohmann::json::parse(std::ifstream(TROUPE_MACHINE_CODE)).at("kernels");
};

}  // namespace

std::optional<CompiledKernel> compiled_kernel(const void* kernel) { return Table::instance().find(kernel); }

void set_compiled_kernel(const void* kernel, const CompiledKernel& compiled) {
  Table::instance().set(kernel, compiled);
}

}  // namespace troupe::simt
