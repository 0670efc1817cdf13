// SPDX-License-Identifier: Apache-2.0
// Has drawn answers (bench/text/grammar_answers.cpp) judged by valijson, which shares nothing with the
// grammars nor with jsonschema: lines of JSON on standard input, of which those of schemas and calls count.
// Left out are schemas with what valijson has otherwise than they mean it: fractions, which are doubles
// there, and keywords that are younger than draft 7. Ends with 1 if an answer does not obey, or if none was
// judged.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

namespace {

using Json = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

bool is_known(const Json& schema) {
  if (schema.is_number_float()) return false;
  if (schema.is_object() && (schema.contains("prefixItems") || schema.contains("multipleOf"))) return false;
  if (schema.is_object() && schema.contains("$ref") && schema.contains("maximum")) return false;
  return !schema.is_structured() || std::all_of(schema.begin(), schema.end(), is_known);
}

class Judge {
 public:
  void judge(const Json& line) {
    const std::string kind = line.at("kind");
    if (kind == "tools") {
      for (const Json& tool : line.at("tools"))
        tools_[tool.at("function").at("name").get<std::string>()] = tool.at("function").at("parameters");
    } else if (kind == "schema") {
      judge(line.at("schema"), line.at("text").get<std::string>(), line);
    } else if (kind == "calls") {
      for (const Json& call : line.at("calls"))
        judge(tools_.at(call.at(0).get<std::string>()), call.at(1).get<std::string>(), line);
    }
  }

  bool is_good() const { return num_judged_ > 0 && num_wrong_ == 0; }
  void print() const {
    std::printf("%ld answers judged by valijson, %ld wrong, %ld left out\n", num_judged_, num_wrong_,
                num_left_out_);
  }

 private:
  void judge(const Json& schema, const std::string& text, const Json& line) {
    // valijson counts a string's characters up to its first NUL.
    if (!is_known(schema) || text.find("\\u0000") != std::string::npos) {
      num_left_out_ += 1;
      return;
    }
    num_judged_ += 1;
    const Json value = Json::parse(text, nullptr, false);
    if (!value.is_discarded() && validator_.validate(known(schema), Adapter(value), nullptr)) return;
    num_wrong_ += 1;
    if (num_wrong_ <= 20) std::printf("WRONG %s\n", line.dump().c_str());
  }

  const valijson::Schema& known(const Json& schema) {
    auto& known = schemas_[schema.dump()];
    if (!known) {
      known = std::make_unique<valijson::Schema>();
      valijson::SchemaParser().populateSchema(Adapter(schema), *known);
    }
    return *known;
  }

  std::map<std::string, Json> tools_;  // schemas of arguments, by name
  std::map<std::string, std::unique_ptr<valijson::Schema>> schemas_;
  valijson::Validator validator_;
  long num_judged_ = 0, num_wrong_ = 0, num_left_out_ = 0;
};

}  // namespace

int main() {
  Judge judge;
  for (std::string text; std::getline(std::cin, text);) judge.judge(Json::parse(text));
  judge.print();
  return judge.is_good() ? 0 : 1;
}
