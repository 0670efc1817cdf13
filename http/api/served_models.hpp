// SPDX-License-Identifier: Apache-2.0
// The models of one server and the choice among them: a request names one, and
// its endpoint says what that one must be able to do. Immutable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/request/api_error.hpp"
#include "actors/request/generation_request.hpp"
#include "http/api/served_model_info.hpp"

namespace troupe {

class FieldReader;

class ServedModels {
 public:
  // A model's place is its index in the engine. Throws std::runtime_error if there is
  // none or two have the same name. aliases: names that mean what no name means; "*": all unknown ones.
  explicit ServedModels(std::vector<ServedModelInfo> models, std::vector<std::string> aliases = {});

  const ServedModelInfo& operator[](ModelIndex index) const { return models_[index]; }
  const std::vector<ServedModelInfo>& all() const { return models_; }
  std::optional<ModelIndex> find(std::string_view name) const;

  // The named model, or without a name, or with an alias, the first that can do it. An error if it does
  // not exist (kModelNotFound) or can't. No task: any will do.
  std::variant<ModelIndex, ApiError> choose(const std::optional<std::string>& name,
                                            std::optional<ModelTask> task) const;

  // The same models, all of which hear lengths that requests foretell: for requests of an earlier process,
  // whose settings were others. A core that does not reserve by them ignores them.
  ServedModels hearing_lengths() const;

  // "\"a\", \"b\"", for messages.
  std::string names() const;

 private:
  bool is_alias(std::string_view name) const;
  ApiError unfit(const std::string& why, ModelTask wanted) const;

  std::vector<ServedModelInfo> models_;
  std::vector<std::string> aliases_;
};

// The model of a request body: its field `model`. 0 with an error in `fields`.
ModelIndex read_model(FieldReader& fields, const ServedModels& models, std::optional<ModelTask> task);

}  // namespace troupe
