//! The operator's view of the nodes.

use super::server::Server;
use super::{Ensemble, frame, time};

impl Ensemble {
    /// Sends a query to the server that has applied the most changes, and returns its reply.
    fn told(&mut self, question: &[u8]) -> Vec<u8> {
        let newest = self.servers.iter_mut().max_by_key(|server| server.applied);
        newest.map(|newest: &mut Server| newest.tell(question, time())).unwrap_or_default()
    }

    pub fn children(&mut self, path: &str) -> Option<Vec<String>> {
        frame::names(&self.told(&frame::children(path)))
    }

    /// Returns the children together with the labels in their data.
    pub fn labels(&mut self, path: &str) -> Vec<(String, Option<String>)> {
        let names = self.children(path).unwrap_or_default();
        let labelled = names.into_iter().map(|name| {
            let data = frame::content(&self.told(&frame::data(&format!("{path}/{name}"))));
            (name, data.and_then(|data| label(&data)))
        });
        labelled.collect()
    }

    /// Removes a directory if it is empty and has had children. Servers remove container nodes in
    /// the same way.
    pub fn reap(&mut self, path: &str) {
        let empty = self.children(path).is_some_and(|children| children.is_empty());
        if empty && frame::changes_of_children(&self.told(&frame::data(path))) > 0 {
            self.delete(path);
        }
    }
}

/// Returns the label in the data of a contender's node. For a candidate of an election, the data
/// contains only the candidate's id, which is its label.
fn label(data: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(data);
    if !text.starts_with('{') {
        return Some(text.into_owned()).filter(|text| !text.is_empty());
    }
    let (_, rest) = text.split_once("\"label\":\"")?;
    rest.split_once('"').map(|(label, _)| label.to_owned())
}
