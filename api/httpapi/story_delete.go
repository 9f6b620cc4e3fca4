package httpapi

// deleteStory is DELETE /v1/stories/{id}.
func deleteStory(c *call) error {
	id, err := c.item()
	if err != nil {
		return err
	}
	if err := c.stories.Delete(c.r.Context(), id, c.who.User, c.clock.Read().Steady); err != nil {
		return err
	}
	return c.noContent()
}
