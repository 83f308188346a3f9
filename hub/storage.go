package hub

import "context"

// checkStorage warns if the hub that started before had another storage. That is no error: the
// directory may have been replaced.
func (h *Hub) checkStorage(ctx context.Context) error {
	if h.cfg.StorageID == "" || h.cfg.Offline {
		return nil
	}
	former, err := h.replaceStorage(ctx, h.cfg.StorageID)
	if err == nil && former != "" && former != h.cfg.StorageID {
		h.cfg.Logger.Warn("the hub that started before on this database has another data directory, whose files and running agents " +
			"are not available to this one: all hubs need the same directory, or shared storage and no process deployer")
	}
	return err
}
