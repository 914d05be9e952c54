// Runs a tool and keeps what it printed.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/temp_folder.h"

namespace rtx {

struct CommandResult {
  int exit_code = -1;  // 128 + the signal that ended it
  std::string out, err;
};

// `arguments` as the program sees them; no shell expansion.
inline CommandResult run_command(const std::vector<std::string>& arguments) {
  const TempFolder folder;
  std::string line;
  for (const std::string& argument : arguments) {
    line += "'";
    for (char c : argument) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += "' ";
  }
  const int status = std::system((line + ">" + folder / "out" + " 2>" + folder / "err").c_str());
  const auto read = [&](const char* name) {
    std::ifstream stream(folder / name, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read("out"), read("err")};
}

}  // namespace rtx
