// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/families.hpp"

#include <vector>

namespace troupe {
namespace {

constexpr FamilyNames kFamilies[] = {
    {Family::kLlama, "LlamaForCausalLM", "llama", "llama"},
    {Family::kMistral, "MistralForCausalLM", "mistral", ""},
    {Family::kMixtral, "MixtralForCausalLM", "mixtral", ""},
    {Family::kQwen2, "Qwen2ForCausalLM", "qwen2", "qwen2"},
    {Family::kQwen3, "Qwen3ForCausalLM", "qwen3", "qwen3"},
    {Family::kQwen3Moe, "Qwen3MoeForCausalLM", "qwen3_moe", "qwen3moe"},
    {Family::kPhi3, "Phi3ForCausalLM", "phi3", "phi3"},
    {Family::kSmolLm3, "SmolLM3ForCausalLM", "smollm3", "smollm3"},
    {Family::kGemma2, "Gemma2ForCausalLM", "gemma2", "gemma2"},
    {Family::kGemma3, "Gemma3ForCausalLM", "gemma3_text", "gemma3"},
    {Family::kGptOss, "GptOssForCausalLM", "gpt_oss", "gpt-oss"},
    {Family::kLfm2, "Lfm2ForCausalLM", "lfm2", ""},
    {Family::kGpt2, "GPT2LMHeadModel", "gpt2", ""},
    {Family::kGptNeoX, "GPTNeoXForCausalLM", "gpt_neox", ""},
    {Family::kOpt, "OPTForCausalLM", "opt", ""},
    {Family::kGptJ, "GPTJForCausalLM", "gptj", ""},
    {Family::kBert, "BertModel", "bert", ""},
    {Family::kBert, "RobertaModel", "roberta", ""},
    {Family::kBert, "XLMRobertaModel", "xlm-roberta", ""},
    {Family::kBert, "DistilBertModel", "distilbert", ""},
    {Family::kBert, "AlbertModel", "albert", ""},
    {Family::kBert, "BertForSequenceClassification", "", ""},
    {Family::kBert, "RobertaForSequenceClassification", "", ""},
    {Family::kBert, "XLMRobertaForSequenceClassification", "", ""},
    {Family::kBert, "DistilBertForSequenceClassification", "", ""},
    {Family::kBert, "AlbertForSequenceClassification", "", ""},
    {Family::kRecurrent, "LstmForCausalLM", "lstm", ""},
    {Family::kRecurrent, "GruForCausalLM", "gru", ""},
    {Family::kSeq2Seq, "LstmForConditionalGeneration", "lstm_seq2seq", ""},
    {Family::kSeq2Seq, "GruForConditionalGeneration", "gru_seq2seq", ""},
    {Family::kTranslator, "MarianMTModel", "marian", ""},
    {Family::kTranslator, "M2M100ForConditionalGeneration", "m2m_100", ""},
    {Family::kTreeLstm, "BinaryTreeLstmForClassification", "binary_tree_lstm", ""},
    {Family::kTreeLstm, "ChildSumTreeLstmForClassification", "child_sum_tree_lstm", ""},
};

const FamilyNames* find_by(std::string_view FamilyNames::*member, std::string_view name) {
  if (name.empty()) return nullptr;
  for (const FamilyNames& names : kFamilies)
    if (names.*member == name) return &names;
  return nullptr;
}

std::string listed(std::string_view FamilyNames::*member) {
  std::vector<std::string_view> names;
  for (const FamilyNames& family : kFamilies)
    if (!(family.*member).empty()) names.push_back(family.*member);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "" : i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace

const FamilyNames* find_family(std::string_view architecture) {
  return find_by(&FamilyNames::architecture, architecture);
}
const FamilyNames* find_family_of_type(std::string_view model_type) {
  return find_by(&FamilyNames::model_type, model_type);
}
const FamilyNames* find_gguf_family(std::string_view name) { return find_by(&FamilyNames::gguf, name); }

std::string known_architectures() { return listed(&FamilyNames::architecture); }
std::string known_gguf_architectures() { return listed(&FamilyNames::gguf); }

}  // namespace troupe
