// Says of CDI files, named on stdin one a line, what the reference loader makes of each: "ok", or "refused: " and its words. The judge of crates/cdi's
// own reader and validator in its tests.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(verdict(lines.Text()))
	}
}

// A loader that panics takes its runtime with it, so a file that makes it panic is one that must not be.
func verdict(path string) (said string) {
	defer func() {
		if fault := recover(); fault != nil {
			said = fmt.Sprintf("refused: panic: %v", fault)
		}
	}()
	spec, err := cdi.ReadSpec(path, 0)
	if err != nil {
		return "refused: " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	if spec == nil {
		return "refused: no spec"
	}
	return "ok"
}
