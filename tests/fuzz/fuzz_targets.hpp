// SPDX-License-Identifier: Apache-2.0
// Everything that is fuzzed: each function reads bytes of a stranger the way the
// program does, and checks what must hold of the outcome. Throws PropertyBroken; any
// other exception that leaves it is a find, too. One thread.
//
// A target's seeds are the files of seeds/NAME.
#pragma once

#include <array>
#include <string_view>

namespace troupe::fuzz {

// http/
void fuzz_http_request(std::string_view bytes);
void fuzz_http_fields(std::string_view bytes);
void fuzz_chat_body(std::string_view bytes);
void fuzz_completion_body(std::string_view bytes);
void fuzz_responses_body(std::string_view bytes);
void fuzz_messages_body(std::string_view bytes);
void fuzz_token_body(std::string_view bytes);
void fuzz_embedding_body(std::string_view bytes);
void fuzz_score_body(std::string_view bytes);
void fuzz_ollama_body(std::string_view bytes);
// text/
void fuzz_tokenizer_file(std::string_view bytes);
void fuzz_gguf_vocabulary(std::string_view bytes);
void fuzz_chat_template(std::string_view bytes);
void fuzz_gbnf_grammar(std::string_view bytes);
void fuzz_regex_grammar(std::string_view bytes);
void fuzz_schema_grammar(std::string_view bytes);
void fuzz_tree_text(std::string_view bytes);
// gpu/
void fuzz_safetensors(std::string_view bytes);
void fuzz_model_config(std::string_view bytes);
void fuzz_gguf_header(std::string_view bytes);
void fuzz_gguf_file(std::string_view bytes);
void fuzz_wire_to_worker(std::string_view bytes);
void fuzz_wire_to_server(std::string_view bytes);
// store/
void fuzz_page_file(std::string_view bytes);
void fuzz_turn_file(std::string_view bytes);
// app/
void fuzz_server_toml(std::string_view bytes);
void fuzz_span_file(std::string_view bytes);
// loadgen/
void fuzz_experiment_toml(std::string_view bytes);
void fuzz_sse_stream(std::string_view bytes);
void fuzz_load_answer(std::string_view bytes);
void fuzz_metrics_text(std::string_view bytes);
void fuzz_azure_trace(std::string_view bytes);
void fuzz_burstgpt_trace(std::string_view bytes);
void fuzz_mooncake_trace(std::string_view bytes);
void fuzz_sharegpt_file(std::string_view bytes);
void fuzz_plan_file(std::string_view bytes);

struct FuzzTarget {
  std::string_view name;
  void (*run)(std::string_view bytes);
};

inline constexpr std::array kFuzzTargets = {
    FuzzTarget{"http_request", fuzz_http_request},  // http/
    FuzzTarget{"http_fields", fuzz_http_fields},
    FuzzTarget{"chat_body", fuzz_chat_body},
    FuzzTarget{"completion_body", fuzz_completion_body},
    FuzzTarget{"responses_body", fuzz_responses_body},
    FuzzTarget{"messages_body", fuzz_messages_body},
    FuzzTarget{"token_body", fuzz_token_body},
    FuzzTarget{"embedding_body", fuzz_embedding_body},
    FuzzTarget{"score_body", fuzz_score_body},
    FuzzTarget{"ollama_body", fuzz_ollama_body},
    FuzzTarget{"tokenizer_file", fuzz_tokenizer_file},  // text/
    FuzzTarget{"gguf_vocabulary", fuzz_gguf_vocabulary},
    FuzzTarget{"chat_template", fuzz_chat_template},
    FuzzTarget{"gbnf_grammar", fuzz_gbnf_grammar},
    FuzzTarget{"regex_grammar", fuzz_regex_grammar},
    FuzzTarget{"schema_grammar", fuzz_schema_grammar},
    FuzzTarget{"tree_text", fuzz_tree_text},
    FuzzTarget{"safetensors", fuzz_safetensors},  // gpu/
    FuzzTarget{"model_config", fuzz_model_config},
    FuzzTarget{"gguf_header", fuzz_gguf_header},
    FuzzTarget{"gguf_file", fuzz_gguf_file},
    FuzzTarget{"wire_to_worker", fuzz_wire_to_worker},
    FuzzTarget{"wire_to_server", fuzz_wire_to_server},
    FuzzTarget{"page_file", fuzz_page_file},  // store/
    FuzzTarget{"turn_file", fuzz_turn_file},
    FuzzTarget{"server_toml", fuzz_server_toml},  // app/
    FuzzTarget{"span_file", fuzz_span_file},
    FuzzTarget{"experiment_toml", fuzz_experiment_toml},  // loadgen/
    FuzzTarget{"sse_stream", fuzz_sse_stream},
    FuzzTarget{"load_answer", fuzz_load_answer},
    FuzzTarget{"metrics_text", fuzz_metrics_text},
    FuzzTarget{"azure_trace", fuzz_azure_trace},
    FuzzTarget{"burstgpt_trace", fuzz_burstgpt_trace},
    FuzzTarget{"mooncake_trace", fuzz_mooncake_trace},
    FuzzTarget{"sharegpt_file", fuzz_sharegpt_file},
    FuzzTarget{"plan_file", fuzz_plan_file},
};

}  // namespace troupe::fuzz
