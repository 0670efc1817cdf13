// SPDX-License-Identifier: Apache-2.0
// Files of tokenizers of BERT's family, made from a list of words.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe {

// Special where it is in brackets.
inline bool is_bert_special(const std::string& word) {
  return word == "[PAD]" || word == "[UNK]" || word == "[CLS]" || word == "[SEP]" || word == "[MASK]";
}

// tokenizer.json as of all-MiniLM-L6-v2; the place of a word is its id.
inline nlohmann::json bert_file(const std::vector<std::string>& words, bool is_lowercase = true) {
  using nlohmann::json;
  json vocabulary = json::object();
  json added = json::array();
  for (std::size_t id = 0; id < words.size(); ++id) {
    vocabulary[words[id]] = id;
    if (!is_bert_special(words[id])) continue;
    added.push_back({{"id", id}, {"content", words[id]}, {"special", true}, {"normalized", false}});
  }
  const auto special = [](const char* name) {
    return json{{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
  };
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"version", "1.0"},
          {"truncation", {{"max_length", 4}, {"strategy", "LongestFirst"}, {"stride", 0}}},
          {"padding", {{"strategy", {{"Fixed", 128}}}, {"pad_token", "[PAD]"}}},
          {"added_tokens", added},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", is_lowercase}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "TemplateProcessing"}, {"single", {special("[CLS]"), text, special("[SEP]")}}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", vocabulary}}}};
}

// Words, pieces and all letters, so that most text is known.
inline std::vector<std::string> small_bert_words() {
  std::vector<std::string> words = {
      "[PAD]",  "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the",    "un",     "##aff",    "##able", "able",
      "##ab",   "token", "##ize", "##r",   "run",    "##ning", "cafe",   "ae",       "\u4e2d", "\u6587",
      "\u03c3", ".",     ",",     "?",     "!",      "'",      "-",      "$",        "[",      "]",
      "cls",    "sep",   "1",     "##2",   "12",     "naive",  "\u00df", "##\u0301", "e",      "\U0001F600"};
  for (char c = 'a'; c <= 'z'; ++c) {
    if (c != 'e') words.emplace_back(1, c);
    if (c != 'r') words.push_back(std::string("##") + c);
  }
  return words;
}

}  // namespace troupe
