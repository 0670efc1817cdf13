// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/families/families.hpp"

#include <vector>

namespace troupe {

// Each is in the file of its name; a file may have relatives that share a network.
using Families = const std::span<const Family>;
extern Families kLlamaFamily, kQwenFamily, kPhi3Family, kSmolLm3Family, kGemmaFamily, kGptOssFamily,
    kLfm2Family, kGpt2Family, kGptNeoXFamily, kOptFamily, kGptJFamily, kPhiFamily, kBertFamily,
    kRecurrentFamily, kTranslatorFamily;

namespace {

constexpr Families* kFamilies[] = {&kLlamaFamily,   &kQwenFamily,      &kPhi3Family,      &kSmolLm3Family,
                                   &kGemmaFamily,   &kGptOssFamily,    &kLfm2Family,      &kGpt2Family,
                                   &kGptNeoXFamily, &kOptFamily,       &kGptJFamily,      &kPhiFamily,
                                   &kBertFamily,    &kRecurrentFamily, &kTranslatorFamily};

template <class Predicate>
const Family* find_if(const Predicate& is_it) {
  for (const Families* families : kFamilies)
    for (const Family& family : *families)
      if (is_it(family)) return &family;
  return nullptr;
}

// "a, b and c", each once.
template <class NameOf>
std::string listed(const NameOf& name_of) {
  std::vector<std::string_view> names;
  find_if([&](const Family& family) {
    const std::string_view name = name_of(family);
    if (!name.empty() && (names.empty() || names.back() != name)) names.push_back(name);
    return false;
  });
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "" : i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

std::string_view gguf_name(const Family& family) {
  return family.gguf == nullptr ? std::string_view() : family.gguf->name;
}

}  // namespace

const Family* find_family(std::string_view architecture) {
  return find_if([&](const Family& family) { return family.architecture == architecture; });
}

const Family* find_family_of_type(std::string_view model_type) {
  if (model_type.empty()) return nullptr;
  return find_if([&](const Family& family) { return family.model_type == model_type; });
}

const GgufFamily* find_gguf(std::string_view name) {
  const Family* family = find_gguf_family(name, false);
  return family == nullptr ? nullptr : family->gguf;
}

const Family* find_gguf_family(std::string_view name, bool has_experts) {
  if (name.empty()) return nullptr;
  const auto is_it = [&](const Family& family) { return gguf_name(family) == name; };
  const Family* fitting =
      find_if([&](const Family& family) { return is_it(family) && family.is_mixture == has_experts; });
  return fitting != nullptr ? fitting : find_if(is_it);
}

std::string known_architectures() {
  return listed([](const Family& family) { return family.architecture; });
}
std::string known_gguf_architectures() { return listed(gguf_name); }

}  // namespace troupe
