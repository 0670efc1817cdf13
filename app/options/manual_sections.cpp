// SPDX-License-Identifier: Apache-2.0
#include "app/options/manual_sections.hpp"

namespace troupe {

std::vector<ManualSection> manual_sections() {
  return {
      {"CONFIGURATION",
       {"Every option of serve is a flag, an environment variable (in brackets behind its help) and a key "
        "of the TOML file that --config names: --port is TROUPE_SERVER_PORT, and port under [server]. A "
        "flag beats the variable, that the file.",
        "Several models are a [[model]] each in the file, or a --model each."}},
      {"SIGNALS",
       {"\tSIGTERM, SIGINT\tserve answers what it has begun, for --drain-seconds at most, and ends; a second "
        "one ends it at once.",
        "\tSIGHUP\tserve reads file, keys and certificate anew. The log names what has changed, and "
        "what needs a restart. A file that can't be used changes nothing."}},
      {"EXIT STATUS",
       {"\t0\tall is well",
        "\t1\tthe command failed, or a port or the state directory is in use; doctor found a problem",
        "\t64\tthe command line lacks an argument", "\t70\tthe engine failed: start it again",
        "\t78\tthe configuration can't be used: starting again does not help"}},
      {"FILES",
       {"\t/etc/troupe/troupe.toml\tthe configuration of the service troupe.service, where it is installed",
        "\t$XDG_STATE_HOME/troupe\tconversations and KV pages, else ~/.local/state/troupe; "
        "/var/lib/troupe of the service"}},
      {"SEE ALSO", {"troupe-loadgen(1)"}},
  };
}

}  // namespace troupe
