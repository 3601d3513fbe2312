package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"ankka-flow/wire"
)

// buildVersion is what the module was built as: a release's version, or the
// commit of a working tree.
func buildVersion() (version, commit string) {
	version = "devel"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, ""
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return version, commit
}

// versionText is what `version` and `--version` print.
func versionText() string {
	version, _ := buildVersion()
	return fmt.Sprintf("ankka-flow %s, protocol %s, %s\n", version, wire.Version, runtime.Version())
}

func newVersion(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misuse("version takes no arguments, but there is %q", args[0])
			}
			if !asJSON {
				_, err := fmt.Fprint(a.stdout, versionText())
				return err
			}
			version, commit := buildVersion()
			return json.NewEncoder(a.stdout).Encode(map[string]string{
				"version": version, "commit": commit, "protocol": wire.Version, "go": runtime.Version(),
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}
