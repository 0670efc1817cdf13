// SPDX-License-Identifier: Apache-2.0
// The models as Ollama's API lists and describes them. Pure.
#pragma once

#include <string>
#include <string_view>

#include "http/api/served_models.hpp"

namespace troupe {

// The version of Ollama whose API this is: clients look at it before they ask for more.
inline constexpr std::string_view kOllamaVersion = "0.12.11";

// GET /api/tags: names with a tag, ":latest" where they have none.
std::string ollama_tags_json(const ServedModels& models);
// GET /api/ps: all of them, since all are loaded.
std::string ollama_running_json(const ServedModels& models);
// POST /api/show.
std::string ollama_show_json(const ServedModelInfo& model);

}  // namespace troupe
