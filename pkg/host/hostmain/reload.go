package hostmain

import (
	"context"
	"reflect"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// heedReload reloads whenever the process is told to, until ctx ends.
func (d *daemon) heedReload(ctx context.Context) {
	for {
		select {
		case _, more := <-d.options.Reload:
			if !more {
				return
			}
			if err := d.reload(); err != nil {
				d.log.Error("not reloaded", "code", fleet.CodeOf(err), "error", err.Error())
			}
		case <-ctx.Done():
			return
		}
	}
}

// reload takes over credential revisions and the places of secrets from the file. A
// file that differs in anything else, or is wrong, changes nothing.
func (d *daemon) reload() error {
	cfg, err := loadConfig(d.options.ConfigPath)
	if err != nil {
		return err
	}
	if d.options.Listen != "" {
		cfg.Listen = d.options.Listen
	}
	d.mu.Lock()
	same := reflect.DeepEqual(d.cfg.fixed(), cfg.fixed())
	d.mu.Unlock()
	if !same {
		return fleet.Errorf(fleet.Conflict, codeConfig, "the configuration cannot be reloaded").
			Because("it differs in more than secrets, secret_env and credential_revisions").Advise("restart the host")
	}
	provider, err := cfg.Secrets.provider(d.env, d.now)
	if err != nil {
		return err
	}
	if err := d.host.SetCredentials(cfg.CredentialRevisions.policy()); err != nil {
		return err
	}
	d.secrets.set(provider)
	d.mu.Lock()
	d.cfg.Secrets, d.cfg.CredentialRevisions, d.cfg.Connector.SecretEnv = cfg.Secrets, cfg.CredentialRevisions, cfg.Connector.SecretEnv
	d.mu.Unlock()
	d.life.Renew()
	d.log.Info("reloaded", "credential_revision", cfg.CredentialRevisions.Current)
	return nil
}

// pruning is how often the journal is pruned.
const pruning = time.Hour

func (d *daemon) prune(ctx context.Context) {
	ticker := time.NewTicker(pruning)
	defer ticker.Stop()
	for {
		n, err := d.host.Prune(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			d.log.Error("journal not pruned", "error", err.Error())
		case n > 0:
			d.log.Info("journal pruned", "actions", n)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
