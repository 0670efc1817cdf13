// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/post_processor.hpp"

#include <exception>
#include <optional>

namespace troupe {
namespace {

TokenId read_token(const TokenizerField& name, const TokenTable& ids) {
  const std::optional<TokenId> token = ids.find(name.as_string());
  if (!token) name.fail("\"" + name.as_string() + "\" is not in the vocabulary");
  return *token;
}

// ["[SEP]", 102]
TokenId read_named_token(const TokenizerField& field, const TokenTable& ids) {
  const std::vector<TokenizerField> parts = field.elements();
  if (parts.size() != 2) field.fail("expected a token and its id, got " + field.value().dump());
  const TokenId token = read_token(parts[0], ids);
  if (parts[1].value() != token) {
    parts[1].fail("expected " + std::to_string(token) + ", as in the vocabulary, got " +
                  parts[1].value().dump());
  }
  return token;
}

EnclosingTokens read_template(const TokenizerField& field, const TokenTable& ids) {
  EnclosingTokens tokens;
  bool is_behind = false;
  for (const TokenizerField& part : field.elements()) {
    if (!part["SpecialToken"].is_null()) {
      (is_behind ? tokens.suffix : tokens.prefix).push_back(read_token(part["SpecialToken"]["id"], ids));
    } else if (is_behind) {
      part.fail_unsupported("a text that is there twice");
    } else {
      is_behind = true;
    }
  }
  if (!is_behind) field.fail("expected a Sequence");
  return tokens;
}

// Whether tokens from the second text on are of type 1 and all others of type 0; nullopt:
// it is otherwise.
std::optional<bool> have_types(const std::vector<TokenizerField>& parts, std::size_t second) {
  const auto type_of = [&](std::size_t i) {
    const char* kind = parts[i]["Sequence"].is_null() ? "SpecialToken" : "Sequence";
    return parts[i][kind]["type_id"].value();
  };
  const bool has_types = type_of(second) == 1;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto type = type_of(i);
    if (!type.is_null() && type != (i >= second && has_types ? 1 : 0)) return std::nullopt;
  }
  return has_types;
}

std::optional<PairTokens> read_pair_template(const TokenizerField& field, const TokenTable& ids) {
  if (field.is_null()) return std::nullopt;
  PairTokens tokens;
  const std::vector<TokenizerField> parts = field.elements();
  std::vector<std::size_t> texts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const TokenizerField token = parts[i]["SpecialToken"];
    if (token.is_null()) {
      const TokenizerField text = parts[i]["Sequence"];
      if (text.is_null() || texts.size() == 2 || text["id"].value() != (texts.empty() ? "A" : "B"))
        return std::nullopt;
      texts.push_back(i);
      continue;
    }
    auto& place = texts.empty() ? tokens.prefix : texts.size() == 1 ? tokens.middle : tokens.suffix;
    place.push_back(read_token(token["id"], ids));
  }
  if (texts.size() != 2) return std::nullopt;
  const auto has_types = have_types(parts, texts[1]);
  if (!has_types) return std::nullopt;
  tokens.has_types = *has_types;
  return tokens;
}

// `outer` is put around what `tokens` has been put around.
void enclose(EnclosingTokens& tokens, const EnclosingTokens& outer) {
  tokens.prefix.insert(tokens.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
  tokens.suffix.insert(tokens.suffix.end(), outer.suffix.begin(), outer.suffix.end());
}

}  // namespace

EnclosingTokens read_post_processor(const TokenizerField& field, const TokenTable& ids) {
  EnclosingTokens tokens;
  if (field.is_null()) return tokens;
  const std::string type = field.type();
  if (type == "Sequence") {
    for (const TokenizerField& step : field["processors"].elements()) {
      enclose(tokens, read_post_processor(step, ids));
    }
  } else if (type == "TemplateProcessing") {
    tokens = read_template(field["single"], ids);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    tokens.prefix.push_back(read_named_token(field["cls"], ids));
    tokens.suffix.push_back(read_named_token(field["sep"], ids));
  } else if (type != "ByteLevel") {
    field.fail_unsupported("post-processor " + type);
  }
  return tokens;
}

std::optional<PairTokens> read_pair_processor(const TokenizerField& field, const TokenTable& ids) {
  if (field.is_null()) return std::nullopt;
  const std::string type = field.type();
  if (type == "Sequence") {
    std::optional<PairTokens> tokens;
    for (const TokenizerField& step : field["processors"].elements()) {
      auto found = read_pair_processor(step, ids);
      if (found && tokens) return std::nullopt;
      if (found) tokens = std::move(found);
    }
    return tokens;
  }
  if (type == "TemplateProcessing") {
    try {
      return read_pair_template(field["pair"], ids);
    } catch (const std::exception&) {  // names what is not there, which matters to pairs alone
      return std::nullopt;
    }
  }
  if (type != "BertProcessing" && type != "RobertaProcessing") return std::nullopt;
  const TokenId cls = read_named_token(field["cls"], ids), sep = read_named_token(field["sep"], ids);
  if (type == "BertProcessing")
    return PairTokens{.prefix = {cls}, .middle = {sep}, .suffix = {sep}, .has_types = true};
  return PairTokens{.prefix = {cls}, .middle = {sep, sep}, .suffix = {sep}, .has_types = false};
}

}  // namespace troupe
