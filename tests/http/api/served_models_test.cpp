// SPDX-License-Identifier: Apache-2.0
#include "http/api/served_models.hpp"

#include <stdexcept>

#include <doctest/doctest.h>

using namespace troupe;

namespace {

ServedModelInfo model(const std::string& name, ModelKind kind) {
  return {.name = name, .kind = kind, .defaults = {}};
}

ServedModels two_and_two() {
  return ServedModels({model("vectors", ModelKind::kEmbedding), model("chat", ModelKind::kGenerative),
                       model("more-vectors", ModelKind::kEmbedding),
                       model("more-chat", ModelKind::kGenerative)});
}

ModelIndex chosen(const ServedModels& models, const std::optional<std::string>& name, ModelTask task) {
  const auto choice = models.choose(name, task);
  const auto* error = std::get_if<ApiError>(&choice);
  INFO((error == nullptr ? "" : error->message));
  REQUIRE(error == nullptr);
  return std::get<ModelIndex>(choice);
}
ApiError refused(const ServedModels& models, const std::optional<std::string>& name, ModelTask task) {
  const auto choice = models.choose(name, task);
  REQUIRE(std::holds_alternative<ApiError>(choice));
  CHECK(std::get<ApiError>(choice).field == "model");
  return std::get<ApiError>(choice);
}

}  // namespace

TEST_CASE("served models: a name chooses, and without one the first that can do it") {
  const ServedModels models = two_and_two();
  CHECK(chosen(models, "more-chat", ModelTask::kGenerate) == 3);
  CHECK(chosen(models, "vectors", ModelTask::kEmbed) == 0);
  CHECK(chosen(models, std::nullopt, ModelTask::kGenerate) == 1);
  CHECK(chosen(models, std::nullopt, ModelTask::kEmbed) == 0);
  CHECK(models[3].name == "more-chat");
}

TEST_CASE("served models: an unknown name is told which there are") {
  const ApiError error = refused(two_and_two(), "gpt-4", ModelTask::kGenerate);
  CHECK(error.kind == ApiErrorKind::kModelNotFound);
  CHECK(
      error.message ==
      R"(the model "gpt-4" does not exist; this server has "vectors", "chat", "more-vectors", "more-chat")");
  CHECK(refused(two_and_two(), "", ModelTask::kGenerate).kind == ApiErrorKind::kModelNotFound);
  CHECK(refused(two_and_two(), "CHAT", ModelTask::kGenerate).kind == ApiErrorKind::kModelNotFound);
  CHECK(refused(two_and_two(), std::string(5000, 'x'), ModelTask::kGenerate).message.size() < 300);
}

TEST_CASE("served models: an alias stands for the first model that can do it") {
  const auto with = [](std::vector<std::string> aliases) {
    return ServedModels(two_and_two().all(), std::move(aliases));
  };
  const ServedModels named = with({"claude-haiku", "vectors"});
  CHECK(chosen(named, "claude-haiku", ModelTask::kGenerate) == 1);
  CHECK(chosen(named, "claude-haiku", ModelTask::kEmbed) == 0);
  CHECK(chosen(named, "more-chat", ModelTask::kGenerate) == 3);
  // A model's own name comes first.
  CHECK(refused(named, "vectors", ModelTask::kGenerate).kind == ApiErrorKind::kInvalidRequest);
  CHECK(refused(named, "gpt-4", ModelTask::kGenerate).kind == ApiErrorKind::kModelNotFound);
  CHECK(chosen(with({"*"}), "gpt-4", ModelTask::kGenerate) == 1);
  CHECK(chosen(with({"*"}), "more-chat", ModelTask::kGenerate) == 3);
}

TEST_CASE("served models: a model of the wrong kind is told what it does and which do the other") {
  const ApiError error = refused(two_and_two(), "chat", ModelTask::kEmbed);
  CHECK(error.kind == ApiErrorKind::kInvalidRequest);
  CHECK(error.message ==
        R"(the model "chat" generates text; models that make embeddings: "vectors", "more-vectors")");
  CHECK(refused(two_and_two(), "vectors", ModelTask::kGenerate).message ==
        R"(the model "vectors" makes embeddings; models that generate text: "chat", "more-chat")");
  const ServedModels only({model("chat", ModelKind::kGenerative)});
  CHECK(refused(only, "chat", ModelTask::kEmbed).message ==
        R"(the model "chat" generates text; no model of this server makes embeddings)");
  CHECK(refused(only, std::nullopt, ModelTask::kEmbed).message == "no model of this server makes embeddings");
}

TEST_CASE("served models: vectors and classifiers of one label score pairs, other classifiers do not") {
  ServedModelInfo ranker = model("ranker", ModelKind::kClassifying),
                  moods = model("moods", ModelKind::kClassifying);
  ranker.labels = {"LABEL_0"};
  moods.labels = {"bad", "good"};
  const ServedModels models({moods, ranker, model("vectors", ModelKind::kEmbedding)});
  CHECK(chosen(models, std::nullopt, ModelTask::kScore) == 1);
  CHECK(chosen(models, "vectors", ModelTask::kScore) == 2);
  CHECK(chosen(models, std::nullopt, ModelTask::kClassify) == 0);
  CHECK(chosen(models, "ranker", ModelTask::kClassify) == 1);
  CHECK(refused(models, "moods", ModelTask::kScore).message ==
        R"(the model "moods" classifies texts; models that score pairs of texts: "ranker", "vectors")");
  CHECK(refused(models, "ranker", ModelTask::kEmbed).message ==
        R"(the model "ranker" classifies texts; models that make embeddings: "vectors")");
  CHECK(refused(models, "vectors", ModelTask::kClassify).message ==
        R"(the model "vectors" makes embeddings; models that classify texts: "moods", "ranker")");
}

TEST_CASE("served models: there is at least one, and no name twice") {
  CHECK_THROWS_AS(ServedModels({}), std::runtime_error);
  CHECK_THROWS_WITH(ServedModels({model("a", ModelKind::kGenerative), model("a", ModelKind::kEmbedding)}),
                    "two models have the name \"a\"");
}
