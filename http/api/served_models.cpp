// SPDX-License-Identifier: Apache-2.0
#include "http/api/served_models.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "http/api/requests/field_reader.hpp"
#include "http/json/json_text.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxNameShown = 128;

std::string in_quotes(std::string_view name) { return "\"" + std::string(name) + "\""; }

std::string_view does(ModelKind kind) {
  switch (kind) {
    case ModelKind::kEmbedding: return "makes embeddings";
    case ModelKind::kClassifying: return "classifies texts";
    case ModelKind::kGenerative: break;
  }
  return "generates text";
}

struct Wording {
  std::string_view one, several;
};

Wording wording_of(ModelTask task) {
  switch (task) {
    case ModelTask::kEmbed: return {"makes embeddings", "make embeddings"};
    case ModelTask::kClassify: return {"classifies texts", "classify texts"};
    case ModelTask::kScore: return {"scores pairs of texts", "score pairs of texts"};
    case ModelTask::kGenerate: break;
  }
  return {"generates text", "generate text"};
}

// Of the models that can do it, or of all.
std::string list_names(const std::vector<ServedModelInfo>& models, std::optional<ModelTask> task) {
  std::string list;
  for (const auto& model : models) {
    if (task && !can(model, *task)) continue;
    list += (list.empty() ? "" : ", ") + in_quotes(model.name);
  }
  return list;
}

}  // namespace

ServedModels::ServedModels(std::vector<ServedModelInfo> models, std::vector<std::string> aliases)
    : models_(std::move(models)), aliases_(std::move(aliases)) {
  if (models_.empty()) throw std::runtime_error("a server needs a model");
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (find(models_[i].name) != i)
      throw std::runtime_error("two models have the name " + in_quotes(models_[i].name));
  }
}

std::optional<ModelIndex> ServedModels::find(std::string_view name) const {
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (models_[i].name == name) return static_cast<ModelIndex>(i);
  }
  return std::nullopt;
}

std::variant<ModelIndex, ApiError> ServedModels::choose(const std::optional<std::string>& name,
                                                        std::optional<ModelTask> task) const {
  const auto index = name ? find(*name) : std::nullopt;
  if (!name || (!index && is_alias(*name))) {
    const auto first = std::find_if(models_.begin(), models_.end(),
                                    [task](const auto& model) { return !task || can(model, *task); });
    if (first == models_.end()) return unfit("", *task);
    return static_cast<ModelIndex>(first - models_.begin());
  }
  if (!index)
    return ApiError{.kind = ApiErrorKind::kModelNotFound,
                    .message = "the model " + in_quotes(shorten(*name, kMaxNameShown)) +
                               " does not exist; this server has " + names(),
                    .field = "model"};
  const ServedModelInfo& found = models_[*index];
  if (task && !can(found, *task))
    return unfit("the model " + in_quotes(*name) + " " + std::string(does(found.kind)) + "; ", *task);
  return *index;
}

bool ServedModels::is_alias(std::string_view name) const {
  return std::any_of(aliases_.begin(), aliases_.end(),
                     [name](const std::string& alias) { return alias == name || alias == "*"; });
}

ApiError ServedModels::unfit(const std::string& why, ModelTask wanted) const {
  const std::string fit = list_names(models_, wanted);
  const std::string rest = fit.empty()
                               ? "no model of this server " + std::string(wording_of(wanted).one)
                               : "models that " + std::string(wording_of(wanted).several) + ": " + fit;
  return {.kind = ApiErrorKind::kInvalidRequest, .message = why + rest, .field = "model"};
}

ServedModels ServedModels::hearing_lengths() const {
  ServedModels hearing = *this;
  for (ServedModelInfo& model : hearing.models_) model.hears_lengths = true;
  return hearing;
}

std::string ServedModels::names() const { return list_names(models_, std::nullopt); }

ModelIndex read_model(FieldReader& fields, const ServedModels& models, std::optional<ModelTask> task) {
  const auto name = fields.string("model");
  if (fields.error()) return 0;
  auto chosen = models.choose(name, task);
  if (auto* error = std::get_if<ApiError>(&chosen)) {
    fields.fail(std::move(*error));
    return 0;
  }
  return std::get<ModelIndex>(chosen);
}

}  // namespace troupe
